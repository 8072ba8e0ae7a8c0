// Ids met in answers, offered where an operation asks for one. Kept in memory, gone with the page.

const MOST = 50;
const seen = new Map();
const idNames = new Map();

/** Learn from the paths how the id of each collection is called: /zones/{zone_id} says zone_id of /zones. */
export function learnIdNames(operations) {
  for (const { path } of operations) {
    const match = /^(.*)\/\{(\w+)\}$/.exec(path);
    if (match) idNames.set(match[1], match[2]);
  }
}

/** Note the ids in an answer: those of a list's items, of one object, and named ones of a receipt. */
export function remember(operation, document) {
  if (typeof document !== "object" || document === null) return;
  const own = idNames.get(operation.path) ?? idNames.get(operation.path.replace(/\/\{\w+\}$/, ""));
  const items = Array.isArray(document.items) ? document.items : [];
  // What is noted last is offered first: the order of the list is kept.
  const objects = [document, ...items].reverse();
  for (const object of objects) {
    for (const [name, value] of Object.entries(object ?? {})) {
      const known = name === "id" ? own : name.endsWith("_id") ? name : null;
      if (known && typeof value === "string") note(known, value, name === "id" ? labelOf(object) : "");
    }
  }
}

function note(name, id, label) {
  const list = seen.get(name) ?? [];
  const earlier = list.find((one) => one.id === id);
  const others = list.filter((one) => one !== earlier);
  seen.set(name, [{ id, label: label || earlier?.label || "" }, ...others].slice(0, MOST));
}

function labelOf(object) {
  return [object.name, object.title, object.code].find((text) => typeof text === "string") ?? "";
}

/** The ids met under this name, or under the name that it ends in: source_zone_id is a zone_id. */
export function knownIds(name) {
  const fitting = [...seen.keys()].filter((known) => name === known || name.endsWith(`_${known}`));
  return fitting.flatMap((known) => seen.get(known));
}

export function newestId(name) {
  return knownIds(name)[0]?.id ?? null;
}
