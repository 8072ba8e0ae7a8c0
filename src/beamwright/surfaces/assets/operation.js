// The reference of one operation: what it takes and what it answers.

import { copyButton, freshId, h, prose } from "./dom.js";

const PLACES = { path: "Path", query: "Query", header: "Headers" };
// What a field says of its own absence: a caller must know, a reader only of the exceptions.
const REQUEST = { required: "required", optional: "optional" };
const ANSWER = { required: null, optional: "may be absent" };

/** The reference part of an operation's page; in a narrow window the trial stands before what is `later`. */
export function reference(operation, schemas) {
  return h(
    "div",
    { class: "reference" },
    parameters(operation, schemas, "path"),
    parameters(operation, schemas, "query"),
    body(operation, schemas),
    parameters(operation, schemas, "header"),
    responses(operation, schemas),
  );
}

/** Method and address as they stand on the wire, placeholders told apart. */
export function address(operation) {
  const path = h("code", { class: "path" }, ...pathParts(operation.path));
  return h(
    "p",
    { class: "address" },
    method(operation),
    path,
    copyButton("the path", path, () => operation.path),
  );
}

export function method(operation) {
  return h("span", { class: `method ${operation.reads ? "reads" : "writes"}` }, operation.method);
}

function pathParts(path) {
  return path
    .split(/(\{[^}]+\})/)
    .map((part) => (part.startsWith("{") ? h("span", { class: "slot" }, part) : part));
}

function parameters(operation, schemas, place) {
  const rows = operation.parameters.filter((one) => one.in === place);
  if (rows.length === 0) return null;
  const table = fieldTable(rows, schemas, "Parameter", REQUEST);
  return h("section", { class: place === "header" ? "later" : null }, h("h2", {}, PLACES[place]), table);
}

function body(operation, schemas) {
  if (operation.body === null) return null;
  const fields = schemas.fields(operation.body);
  const shape = fields.length
    ? fieldTable(fields, schemas, "Field", REQUEST)
    : h("p", { class: "soft" }, "No fields: the path says it all. The body may be empty.");
  return h("section", {}, h("h2", {}, "Body"), shape);
}

/** One row per field; objects inside unfold where they stand, built when first asked for. */
function fieldTable(fields, schemas, heading, absence) {
  const head = h(
    "tr",
    {},
    ...[heading, "Type", "Limits and meaning"].map((text) => h("th", { scope: "col" }, text)),
  );
  const rows = h("tbody", {});
  for (const field of fields) rows.append(...fieldRows(field, schemas, absence));
  return h("table", { class: "fields" }, h("thead", {}, head), rows);
}

function fieldRows(field, schemas, absence) {
  const inner = schemas.objects(field.schema);
  const nested = h("tr", { class: "nested", id: freshId("fields"), hidden: true });
  const type = schemas.typeText(field.schema);
  const row = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("code", {}, field.name), presence(field, absence)),
    h("td", {}, inner.length ? unfolding(type, nested, inner, schemas, absence) : type),
    h("td", {}, ...meaning(field, schemas)),
  );
  return inner.length ? [row, nested] : [row];
}

function presence(field, absence) {
  const kind = field.required ? "required" : "optional";
  return absence[kind] === null ? null : h("span", { class: kind }, absence[kind]);
}

function unfolding(type, nested, inner, schemas, absence) {
  const button = h(
    "button",
    { type: "button", class: "unfold", "aria-expanded": "false", "aria-controls": nested.id },
    type,
  );
  button.addEventListener("click", () => {
    if (!nested.hasChildNodes()) {
      nested.append(h("td", { colspan: "3" }, ...inner.map((one) => objectFields(one, schemas, absence))));
    }
    nested.hidden = !nested.hidden;
    button.setAttribute("aria-expanded", String(!nested.hidden));
  });
  return button;
}

function objectFields(schema, schemas, absence) {
  const about = schema.description ? h("p", { class: "about" }, ...prose(schema.description)) : null;
  return h("div", {}, about, fieldTable(schemas.fields(schema), schemas, schema.title ?? "Field", absence));
}

function meaning(field, schemas) {
  const { schema } = schemas.resolve(field.schema);
  const text = field.description ?? (schemas.objects(field.schema).length ? null : schema.description);
  const limits = schemas.limits(field.schema);
  const values = schemas.values(field.schema);
  const personal = schemas.personal(field.schema);
  return [
    personal === null ? null : h("span", { class: "personal" }, personal),
    text ? h("p", {}, ...prose(text)) : null,
    limits.length ? h("p", { class: "limits" }, ...prose(limits.join("; "))) : null,
    values.length ? vocabulary(values) : null,
  ];
}

function vocabulary(values) {
  const words = values.map((value) => h("li", {}, h("code", {}, String(value))));
  return h("ul", { class: "values", "aria-label": "Allowed values" }, ...words);
}

function responses(operation, schemas) {
  const rows = Object.entries(operation.responses).map(([status, given]) => response(status, given, schemas));
  return h("section", { class: "later" }, h("h2", {}, "Responses"), ...rows);
}

/** One status; its schema is built when it is first opened. */
function response(status, given, schemas) {
  const { schema: answer } = schemas.resolve(given);
  const [media, content] = Object.entries(answer.content ?? {})[0] ?? [null, null];
  const good = status.startsWith("2");
  const details = h(
    "details",
    { class: "response" },
    h(
      "summary",
      {},
      h("span", { class: `status ${good ? "good" : "bad"}` }, status),
      " ",
      answer.description ?? "",
    ),
  );
  const build = () => {
    if (details.childElementCount === 1) details.append(...answerParts(answer, media, content, schemas));
  };
  if (good) build();
  details.open = good;
  details.addEventListener("toggle", build);
  return details;
}

function answerParts(answer, media, content, schemas) {
  if (content === null) return [h("p", { class: "soft" }, "No body.")];
  const headers = Object.keys(answer.headers ?? {});
  const beside = headers.length ? ` with ${headers.join(", ")}` : "";
  const type = schemas.typeText(content.schema);
  const shapes = schemas.objects(content.schema).map((one) => objectFields(one, schemas, ANSWER));
  return [h("p", { class: "soft" }, h("code", {}, type), ` as ${media}${beside}`), ...shapes];
}
