// What came back: status, headers of interest, and the body; a refusal says first what is wrong.

import { copyButton, h, jsonBlock, prose, shortened } from "./dom.js";

const HEADERS = [
  "ETag",
  "Location",
  "X-Correlation-Id",
  "Retry-After",
  "Idempotency-Replayed",
  "WWW-Authenticate",
];

/** The answer as an element, and its document when it is JSON. */
export function answered(response, text, milliseconds) {
  const value = parsed(text);
  const refused = (response.headers.get("content-type") ?? "").startsWith("application/problem+json");
  const body =
    value === undefined ? h("pre", { class: "code", tabindex: "0" }, shortened(text)) : jsonBlock(value);
  const element = h(
    "section",
    { class: `result ${response.ok ? "good" : "bad"}`, "aria-label": "Answer" },
    statusLine(response, milliseconds),
    refused && value ? refusal(value) : null,
    headerList(response),
    text === ""
      ? h("p", { class: "soft" }, "No body.")
      : h(
          "div",
          { class: "caption" },
          h("h3", {}, "Body"),
          copyButton("the body", body, () => body.textContent),
        ),
    text === "" ? null : body,
  );
  const spoken = `${response.status} ${response.statusText}. ${(refused && value?.detail) || ""}`;
  return { element, spoken, document: response.ok ? value : undefined };
}

/** No answer at all: the service is away, or the browser would not send. */
export function failed(error) {
  const why = `The request did not get through (${error.message}). Is the service running, and is the token plain text?`;
  const element = h(
    "section",
    { class: "result bad", "aria-label": "Answer" },
    h("div", { class: "problem" }, h("p", { class: "problem-title" }, "No answer."), h("p", {}, why)),
  );
  return { element, spoken: `No answer. ${why}` };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function statusLine(response, milliseconds) {
  const took =
    milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
  return h(
    "p",
    { class: "outcome" },
    h("span", { class: `status ${response.ok ? "good" : "bad"}` }, String(response.status)),
    h("strong", {}, response.statusText || (response.ok ? "Done" : "Refused")),
    h("span", { class: "soft" }, took),
  );
}

function headerList(response) {
  const found = HEADERS.map((name) => [name, response.headers.get(name)]).filter(
    ([, value]) => value !== null,
  );
  return pairs(found);
}

function pairs(entries) {
  const rows = entries.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))]);
  return rows.length ? h("dl", { class: "pairs" }, ...rows) : null;
}

/** A problem document (RFC 9457) as an operator reads it. */
function refusal({ title = "Refused", detail = "", code = "", status, faults = [], context = {} }) {
  const rows = faults.map((fault) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, String(fault.path))),
      h("td", {}, ...prose(String(fault.message))),
    ),
  );
  const about = Object.entries(context).map(([name, value]) => [
    name,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  return h(
    "div",
    { class: "problem" },
    h("p", { class: "problem-title" }, title),
    h("p", {}, ...prose(detail)),
    rows.length ? h("table", { class: "faults" }, h("tbody", {}, ...rows)) : null,
    pairs([["code", code], ...about]),
    status === 401
      ? h(
          "p",
          { class: "soft" },
          "On the machine of the service, ",
          h("code", {}, "beamwright token"),
          " prints a token for the field above.",
        )
      : null,
  );
}
