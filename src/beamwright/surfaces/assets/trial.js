// The form that calls an operation: fields, the same call as a curl command, and the answer.

import { answered, failed } from "./answer.js";
import { copyButton, freshId, h } from "./dom.js";
import { knownIds, newestId, remember } from "./seen.js";
import { token } from "./token.js";

const MOST_OPTIONAL_IN_VIEW = 4;
const LONGEST_ON_A_LINE = 60;
const MOST_LINES = 28;

/** The trial part of an operation's page. */
export function trial(operation, schemas) {
  const fields = operation.parameters.map((parameter) => parameterField(parameter, schemas));
  const editor = operation.body === null ? null : bodyEditor(operation, schemas);
  const curl = h("pre", { class: "code curl", tabindex: "0", "aria-label": "As a curl command" });
  const send = h("button", { type: "submit", class: "send" }, "Send");
  const answer = h("div", { class: "answer" });
  const spoken = h("p", { class: "unseen", role: "status" });
  const form = h(
    "form",
    { novalidate: true, "aria-label": `Call ${operation.name}` },
    h("h2", {}, "Try it"),
    ...fieldGroups(fields),
    editor?.element,
    h("p", { class: "sending" }, send, operation.reads ? null : warning()),
    caption(
      h("h3", {}, "curl"),
      copyButton("the curl command", curl, () => curl.textContent),
    ),
    curl,
    spoken,
    answer,
  );
  const request = () => asRequest(operation, fields, editor);
  const update = () => (curl.textContent = asCurl(request()));
  form.addEventListener("input", update);
  form.addEventListener("keydown", (event) => sendOnEnter(event, form, operation));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!send.disabled && complete(fields)) call(operation, request(), { send, answer, spoken });
  });
  addEventListener("tokenchange", update);
  update();
  return form;
}

function warning() {
  return h("span", { class: "soft" }, `a real command, to ${location.host}`);
}

function caption(title, ...tools) {
  return h("div", { class: "caption" }, title, h("span", {}, ...tools));
}

/** A command is not sent by an Enter that was meant to end a line. */
function sendOnEnter(event, form, operation) {
  if (event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey) form.requestSubmit();
  else if (event.target.matches("input") && !operation.reads) event.preventDefault();
}

function parameterField(parameter, schemas) {
  const id = freshId("field");
  const control = parameterControl(parameter, schemas, id);
  const note = h("span", { class: "wrong", id: `${id}-note` });
  control.setAttribute("aria-describedby", note.id);
  if (parameter.required) control.setAttribute("aria-required", "true");
  control.addEventListener("input", () => mark(control, note, ""));
  const label = h(
    "label",
    { for: id },
    h("code", {}, parameter.name),
    parameter.required ? h("span", { class: "star", "aria-hidden": "true" }, "*") : null,
  );
  return {
    parameter,
    control,
    note,
    element: h("div", { class: "field" }, label, h("div", {}, ...withTools(parameter, control), note)),
  };
}

function parameterControl(parameter, schemas, id) {
  const { schema } = schemas.resolve(parameter.schema);
  const values = schema.type === "boolean" ? [true, false] : schemas.values(parameter.schema);
  if (values.length) {
    const options = ["", ...values].map((value) =>
      h("option", { value: String(value) }, value === "" ? "—" : String(value)),
    );
    return h("select", { id }, ...options);
  }
  const hint =
    schema.default ?? { uuid: "UUID", "date-time": "2026-01-31T08:00:00Z" }[schema.format] ?? schema.type;
  return h("input", {
    id,
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: String(hint ?? ""),
  });
}

/** Ids seen in earlier answers are offered; a fresh idempotency key is one click. */
function withTools(parameter, control) {
  if (parameter.schema.format === "uuid") {
    const list = h("datalist", { id: freshId("known") });
    control.setAttribute("list", list.id);
    control.addEventListener("focus", () => list.replaceChildren(...knownIds(parameter.name).map(idOption)));
    return [control, list];
  }
  if (parameter.name === "Idempotency-Key") {
    const fresh = h("button", { type: "button", class: "quiet" }, "New key");
    fresh.addEventListener("click", () => {
      control.value = randomKey();
      control.dispatchEvent(new Event("input", { bubbles: true }));
    });
    return [h("div", { class: "with-button" }, control, fresh)];
  }
  return [control];
}

function idOption({ id, label }) {
  return h("option", { value: id, label: label ? `${label} · ${id}` : null });
}

function randomKey() {
  // randomUUID is closed to pages that are not served over https or from this machine.
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

/** Required fields in view; many optional ones behind a fold. */
function fieldGroups(fields) {
  const needed = fields.filter(({ parameter }) => parameter.required);
  const optional = fields.filter(({ parameter }) => !parameter.required && parameter.in !== "header");
  const headers = fields.filter(({ parameter }) => parameter.in === "header");
  const folded = optional.length > MOST_OPTIONAL_IN_VIEW;
  return [
    h(
      "div",
      { class: "fieldset" },
      ...[...needed, ...(folded ? [] : optional)].map((field) => field.element),
    ),
    folded ? fold(`${optional.length} optional parameters`, optional) : null,
    headers.length ? fold("Idempotency-Key and If-Match", headers) : null,
  ].filter((group) => group !== null && group.hasChildNodes());
}

function fold(title, fields) {
  return h(
    "details",
    { class: "fold" },
    h("summary", {}, title),
    h("div", { class: "fieldset" }, ...fields.map((field) => field.element)),
  );
}

/** A text area that says at once whether it holds JSON, filled with an example. */
function bodyEditor(operation, schemas) {
  const id = freshId("body");
  const state = h("p", { class: "state", id: `${id}-state`, role: "status" });
  const text = h("textarea", {
    id,
    spellcheck: "false",
    autocapitalize: "off",
    "aria-describedby": state.id,
  });
  text.addEventListener("input", () => {
    const wrong = jsonFault(text.value);
    state.textContent = wrong ?? "";
    text.setAttribute("aria-invalid", String(wrong !== null));
    text.rows = Math.min(Math.max(text.value.split("\n").length, 2), MOST_LINES);
  });
  const fill = (every) => {
    const example = schemas.example(operation.body, { every, known: newestId });
    text.value = JSON.stringify(example, null, 2);
    text.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const filler = (label, every) =>
    h("button", { type: "button", class: "quiet", onclick: () => fill(every) }, label);
  const fields = schemas.fields(operation.body);
  const fillers = fields.length ? [filler("Required fields", false), filler("Every field", true)] : [];
  fill(!fields.some((field) => field.required));
  const title = h("label", { for: id }, "Body");
  return { text, element: h("div", { class: "editor" }, caption(title, ...fillers), text, state) };
}

function jsonFault(text) {
  if (text.trim() === "") return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `Not JSON yet: ${error.message}`;
  }
}

function complete(fields) {
  const missing = fields.filter(
    ({ parameter, control }) => parameter.required && control.value.trim() === "",
  );
  for (const { control, note } of missing) mark(control, note, "Needed");
  missing[0]?.control.focus();
  return missing.length === 0;
}

function mark(control, note, wrong) {
  note.textContent = wrong;
  control.setAttribute("aria-invalid", String(wrong !== ""));
}

/** The call that the form describes; what is left empty is left out. */
function asRequest(operation, fields, editor) {
  const given = fields
    .map(({ parameter, control }) => [parameter, control.value.trim()])
    .filter(([, value]) => value !== "");
  const of = (place) =>
    given
      .filter(([parameter]) => parameter.in === place)
      .map(([parameter, value]) => [parameter.name, value]);
  const query = new URLSearchParams(of("query")).toString();
  const path = of("path").reduce(
    (found, [name, value]) => found.replace(`{${name}}`, () => encodeURIComponent(value)),
    operation.path,
  );
  const body = editor === null || editor.text.value.trim() === "" ? null : editor.text.value;
  return {
    method: operation.method,
    url: serviceRoot() + path + (query ? `?${query}` : ""),
    headers: [...(body === null ? [] : [["Content-Type", "application/json"]]), ...of("header")],
    body,
  };
}

/** The service may live below a path of a proxy; this page is at /docs of it. */
function serviceRoot() {
  return location.origin + location.pathname.replace(/\/docs\/?$/, "");
}

/** The token stays out of the command, so that it can be shared. */
function asCurl({ method, url, headers, body }) {
  const parts = [`curl -i${method === "GET" ? "" : ` -X ${method}`} ${quoted(url)}`];
  if (token() !== "") parts.push('-H "Authorization: Bearer $BEAMWRIGHT_TOKEN"');
  for (const [name, value] of headers) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== null) parts.push(`--data-raw ${quoted(compact(body))}`);
  return parts.join(" \\\n  ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A short body fits the line; a longer one stays as it was typed, which a shell takes as well. */
function compact(body) {
  const short = jsonFault(body) === null ? JSON.stringify(JSON.parse(body)) : body;
  return short.length <= LONGEST_ON_A_LINE ? short : body;
}

async function call(operation, { method, url, headers, body }, { send, answer, spoken }) {
  const began = performance.now();
  send.disabled = true;
  answer.setAttribute("aria-busy", "true");
  try {
    const all = [["Accept", "application/json"], ...headers];
    if (token() !== "") all.push(["Authorization", `Bearer ${token()}`]);
    const options = { method, headers: all, body, credentials: "omit", cache: "no-store", redirect: "error" };
    const response = await fetch(url, options);
    const text = await response.text();
    show(answered(response, text, performance.now() - began), operation, answer, spoken);
  } catch (error) {
    show(failed(error), operation, answer, spoken);
  } finally {
    send.disabled = false;
    answer.removeAttribute("aria-busy");
  }
}

function show(result, operation, answer, spoken) {
  remember(operation, result.document);
  answer.replaceChildren(result.element);
  spoken.textContent = result.spoken;
  reveal(answer, result.element);
}

/** A short answer is brought into view whole, a tall one from its beginning. */
function reveal(answer, element) {
  const panel = answer.closest(".trial");
  const tall = answer.offsetHeight > panel.clientHeight * 0.7;
  if (tall) panel.scrollTop = answer.offsetTop;
  (tall ? element.firstElementChild : answer).scrollIntoView({ block: "nearest" });
}
