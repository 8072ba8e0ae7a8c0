// The page at /docs: reads the description and shows one operation at a time, built when first visited.

import { copyButton, h, prose } from "./dom.js";
import { address, method, reference } from "./operation.js";
import { Schemas } from "./schema.js";
import { learnIdNames } from "./seen.js";
import { tokenField } from "./token.js";
import { trial } from "./trial.js";

const METHODS = ["get", "put", "post", "delete", "patch"];
const byId = (id) => document.getElementById(id);
const main = byId("main");
const navigation = byId("navigation");
const search = byId("search");
const menu = byId("menu");

/** Every operation of the description by context, with what the page asks of it. */
function readOperations(description, schemas) {
  const all = Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.filter((verb) => verb in item).map((verb) => readOperation(path, verb, item[verb], schemas)),
  );
  return [...grouped(all, "context").entries()]
    .sort(([one], [other]) => one.localeCompare(other))
    .flatMap(([, list]) => list);
}

function readOperation(path, verb, given, schemas) {
  const context = given.tags?.[0] ?? "other";
  const [first, second] = path.split("/").filter(Boolean);
  const name = given.operationId ?? `${verb} ${path}`;
  const summary = given.summary ?? "";
  return {
    name,
    path,
    summary,
    context,
    method: verb.toUpperCase(),
    reads: verb === "get",
    resource: first === context && second && !second.startsWith("{") ? second : (first ?? ""),
    parameters: (given.parameters ?? []).map((one) => schemas.resolve(one).schema),
    body: given.requestBody?.content?.["application/json"]?.schema ?? null,
    responses: given.responses ?? {},
    haystack: `${name} ${name.replaceAll("_", " ")} ${path} ${summary} ${context}`.toLowerCase(),
  };
}

function grouped(list, key) {
  const groups = new Map();
  for (const one of list) {
    if (!groups.has(one[key])) groups.set(one[key], []);
    groups.get(one[key]).push(one);
  }
  return groups;
}

/** A list of operations that can be filtered: rows, each inside groups that vanish when empty. */
class Filterable {
  rows = [];
  groups = [];

  row(operation, element) {
    this.rows.push({ operation, element });
    return element;
  }

  group(element) {
    this.groups.push(element);
    return element;
  }

  /** Show what holds every word; answers how many do. */
  filter(words) {
    let shown = 0;
    for (const { operation, element } of this.rows) {
      element.hidden = !words.every((word) => operation.haystack.includes(word));
      shown += element.hidden ? 0 : 1;
    }
    for (const group of this.groups) group.hidden = group.querySelector("[data-row]:not([hidden])") === null;
    return shown;
  }

  /** The row that was most likely meant: the shortest name with every word in it, else the first row. */
  best(words) {
    const shown = this.rows.filter(({ element }) => !element.hidden);
    const named = shown.filter(({ operation }) => words.every((word) => operation.name.includes(word)));
    const [shortest] = named.sort((one, other) => one.operation.name.length - other.operation.name.length);
    return (shortest ?? shown[0])?.element;
  }
}

function buildNavigation(operations) {
  const list = new Filterable();
  const contexts = [...grouped(operations, "context")].map(([context, all]) =>
    list.group(
      h("section", {}, h("h2", {}, h("a", { href: `#${context}` }, context)), ...navigationGroups(all, list)),
    ),
  );
  const none = h("p", { class: "soft none", role: "status" });
  navigation.replaceChildren(...contexts, none);
  return { list, none };
}

function navigationGroups(operations, list) {
  return [...grouped(operations, "resource")].map(([resource, all]) =>
    list.group(
      h(
        "div",
        {},
        h("h3", {}, resource),
        h("ul", {}, ...all.map((one) => list.row(one, navigationRow(one)))),
      ),
    ),
  );
}

function navigationRow(operation) {
  const link = h(
    "a",
    { href: `#${operation.name}`, title: operation.summary },
    operation.name,
    method(operation),
  );
  return h("li", { "data-row": operation.name }, link);
}

function buildOverview(description, operations) {
  const list = new Filterable();
  const { title, summary } = description.info;
  const contexts = [...grouped(operations, "context")].map(([context, all]) =>
    list.group(
      h(
        "section",
        { id: `context-${context}` },
        h("h2", {}, context),
        h("ul", { class: "index" }, ...all.map((one) => list.row(one, overviewRow(one)))),
      ),
    ),
  );
  const element = h(
    "article",
    { class: "overview" },
    h("h1", { tabindex: "-1" }, title),
    summary ? h("p", { class: "lead" }, ...prose(summary)) : null,
    firstSteps(operations),
    ...contexts,
  );
  return { element, list };
}

function firstSteps(operations) {
  const command = h("code", {}, "export BEAMWRIGHT_TOKEN=$(beamwright token)");
  return h(
    "div",
    { class: "steps" },
    h(
      "p",
      {},
      `${operations.length} operations over HTTP, each on a page of its own: what it takes, what it answers, and a form that calls it.`,
    ),
    h(
      "p",
      {},
      "Every call carries a bearer token. On the machine of the service ",
      h("code", {}, "beamwright token"),
      " prints one: paste it into the field above, where this tab keeps it until it is closed. For the curl commands: ",
      command,
      " ",
      copyButton("the command", command, () => command.textContent),
    ),
    h(
      "p",
      {},
      "Press ",
      h("kbd", {}, "/"),
      " to search, ",
      h("kbd", {}, "↓"),
      " to walk through what was found, ",
      h("kbd", {}, "Ctrl"),
      " ",
      h("kbd", {}, "Enter"),
      " in a form to send it. For programs, the whole is ",
      h("a", { href: "docs/openapi.json" }, "one OpenAPI document"),
      ".",
    ),
  );
}

function overviewRow(operation) {
  return h(
    "li",
    { "data-row": operation.name },
    h(
      "a",
      { href: `#${operation.name}` },
      method(operation),
      h(
        "span",
        {},
        h("span", { class: "name" }, operation.name),
        h("code", { class: "path" }, operation.path),
      ),
      h("span", { class: "summary" }, ...prose(operation.summary)),
    ),
  );
}

function operationPage(operation, schemas) {
  return h(
    "article",
    { class: "operation" },
    h(
      "header",
      {},
      h(
        "p",
        { class: "trail" },
        h("a", { href: `#${operation.context}` }, operation.context),
        ` / ${operation.resource}`,
      ),
      h("h1", { tabindex: "-1" }, operation.name),
      h("p", { class: "lead" }, ...prose(operation.summary)),
      address(operation),
    ),
    h(
      "div",
      { class: "halves" },
      reference(operation, schemas),
      h("div", { class: "trial" }, trial(operation, schemas)),
    ),
  );
}

/** Shows what the address names: an operation, a context of the overview, or the overview. */
function router(description, operations, schemas, overview) {
  const byName = new Map(operations.map((operation) => [operation.name, operation]));
  const pages = new Map();
  return function show(first) {
    const wanted = location.hash.slice(1);
    const operation = byName.get(wanted);
    if (operation && !pages.has(wanted)) pages.set(wanted, operationPage(operation, schemas));
    const page = operation ? pages.get(wanted) : overview.element;
    if (page.parentNode !== main) main.replaceChildren(page);
    document.title = operation ? `${operation.name} · ${description.info.title}` : description.info.title;
    markCurrent(operation?.name);
    openMenu(false);
    const section = operation ? null : byId(`context-${wanted}`);
    if (section) section.scrollIntoView();
    else scrollTo(0, 0);
    if (!first) page.querySelector("h1").focus({ preventScroll: true });
  };
}

function markCurrent(name) {
  navigation.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const link = name === undefined ? null : navigation.querySelector(`[data-row="${CSS.escape(name)}"] a`);
  link?.setAttribute("aria-current", "page");
  link?.scrollIntoView({ block: "nearest" });
}

function openMenu(open) {
  document.body.classList.toggle("menu-open", open);
  menu.setAttribute("aria-expanded", String(open));
}

function wireSearch({ list, none }, overview) {
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = list.filter(words);
    overview.list.filter(words);
    none.textContent = words.length === 0 ? "" : shown === 0 ? "Nothing matches." : `${shown} found`;
    navigation.querySelector(".best")?.classList.remove("best");
    const best = words.length === 0 ? null : list.best(words);
    best?.classList.add("best");
    best?.scrollIntoView({ block: "nearest" });
  };
  const meant = () => navigation.querySelector(".best a") ?? visibleLinks()[0];
  search.addEventListener("input", () => {
    filter();
    openMenu(search.value !== "");
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") meant()?.click();
    if (event.key === "ArrowDown") {
      event.preventDefault();
      meant()?.focus();
    }
    if (event.key === "Escape") {
      search.value = "";
      filter();
      openMenu(false);
    }
  });
}

function wireKeys() {
  navigation.addEventListener("keydown", (event) => {
    const at = visibleLinks().indexOf(document.activeElement);
    if (event.key === "ArrowDown") step(event, at + 1);
    if (event.key === "ArrowUp") step(event, at - 1);
    if (event.key === "Escape") openMenu(false);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") === "false"));
}

function visibleLinks() {
  return [...navigation.querySelectorAll("[data-row]:not([hidden]) a")];
}

function step(event, to) {
  event.preventDefault();
  (to < 0 ? search : visibleLinks()[to])?.focus();
}

async function start() {
  tokenField(byId("token"), byId("token-state"), byId("forget"));
  const response = await fetch("docs/openapi.json", { credentials: "omit" });
  if (!response.ok) throw new Error(`the service answered ${response.status}`);
  const description = await response.json();
  const schemas = new Schemas(description);
  const operations = readOperations(description, schemas);
  byId("title").textContent = description.info.title;
  byId("version").textContent = description.info.version;
  learnIdNames(operations);
  const overview = buildOverview(description, operations);
  wireSearch(buildNavigation(operations), overview);
  wireKeys();
  const show = router(description, operations, schemas, overview);
  addEventListener("hashchange", () => show(false));
  show(true);
}

start().catch((error) => {
  main.replaceChildren(
    h(
      "p",
      { class: "notice", role: "alert" },
      `The description could not be read: ${error.message}. Reload the page to try again.`,
    ),
  );
});
