// Small helpers to build the page. Data only ever becomes text: nothing here parses markup.

/** An element; `on…` properties are listeners, `true` is a bare attribute, null and false are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Prose of the description, in which `backticks` mark code. */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

let lastId = 0;

/** An id that no other element of the page has. */
export function freshId(stem) {
  lastId += 1;
  return `${stem}-${lastId}`;
}

/** A button that copies what `text()` says; without clipboard access it selects `shown` instead. */
export function copyButton(label, shown, text) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy ${label}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text(), shown)) ? "Copied" : "Selected";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The clipboard is closed to pages that are not served over https or from this machine.
    getSelection().selectAllChildren(shown);
    return document.execCommand("copy");
  }
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/g;
const MOST_COLOURED = 100_000;
const MOST_SHOWN = 1_000_000;

/** Pretty-printed JSON as a block whose keys and values can be told apart. */
export function jsonBlock(value) {
  const text = JSON.stringify(value, null, 2);
  const block = h("pre", { class: "code", tabindex: "0" });
  if (text.length > MOST_COLOURED) {
    block.textContent = shortened(text);
    return block;
  }
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    block.append(text.slice(end, match.index), ...coloured(match));
    end = match.index + match[0].length;
  }
  block.append(text.slice(end));
  return block;
}

function coloured([whole, string, colon]) {
  if (colon) return [h("span", { class: "json-key" }, string), colon];
  return [h("span", { class: string ? "json-text" : "json-word" }, whole)];
}

export function shortened(text) {
  const rest = text.length - MOST_SHOWN;
  return rest > 0 ? `${text.slice(0, MOST_SHOWN)}\n… ${rest} more characters` : text;
}
