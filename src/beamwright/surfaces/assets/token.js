// The bearer token: held for this tab alone, and never shown again.

const KEY = "beamwright-token";
let held = stored();

export function token() {
  return held;
}

/** Connects the field in the header. */
export function tokenField(field, state, forget) {
  const show = () => {
    describe(held, state);
    forget.hidden = held === "";
    dispatchEvent(new Event("tokenchange"));
  };
  field.value = held;
  field.addEventListener("input", () => {
    keep(field.value);
    show();
  });
  forget.addEventListener("click", () => {
    field.value = "";
    keep("");
    show();
    field.focus();
  });
  setInterval(() => describe(held, state), 15_000);
  show();
}

function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** Copied with its scheme or broken over lines, a token is still meant. */
function keep(text) {
  held = text.replace(/^\s*Bearer\s+/i, "").replace(/\s+/g, "");
  try {
    if (held === "") sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, held);
  } catch {
    // Storage is switched off: the token lives as long as the page.
  }
}

function describe(text, state) {
  const expiry = expiresAt(text);
  const minutes = expiry === null ? null : (expiry - Date.now()) / 60_000;
  const words = text === "" ? "" : minutes === null ? "set" : remaining(minutes);
  if (state.textContent !== words) state.textContent = words;
  state.classList.toggle("expired", minutes !== null && minutes <= 0);
}

function remaining(minutes) {
  if (minutes <= 0) return "expired";
  if (minutes < 100) return `${Math.ceil(minutes)} min left`;
  return minutes < 60 * 48 ? `${Math.round(minutes / 60)} h left` : `${Math.round(minutes / 1440)} days left`;
}

/** When a JWT ends, read off its claims without any check; null for other tokens. */
function expiresAt(text) {
  try {
    const claims = JSON.parse(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return typeof claims.exp === "number" ? claims.exp * 1000 : null;
  } catch {
    return null;
  }
}
