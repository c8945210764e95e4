// Asking the service. Whole numbers too large for JavaScript stay exact: they are ids or times, not quantities.

import { byId } from "./dom.js";

const KEY = "pintgn.key";

/** An answer other than yes; `message` says what is wrong, `next` what to do. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.message ?? `The service answered ${status}.`);
    this.status = status;
    this.next = body.next ?? "";
  }
}

const exact = (_, value, context) =>
  typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
    ? BigInt(context.source) : value;

/** A value as JSON; whole numbers of any size as they are. */
export const json = (value) => (typeof value === "bigint" ? String(value)
  : Array.isArray(value) ? `[${value.map(json).join(",")}]`
  : value && typeof value === "object" ? `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}:${json(v)}`).join(",")}}`
  : JSON.stringify(value));

export function get(path, given = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value !== null && value !== undefined) query.set(name, String(value));
  return ask(query.size ? `${path}?${query}` : path, {});
}

export const post = (path, body) =>
  ask(path, { method: "POST", body: json(body), headers: { "Content-Type": "application/json" } });

export const inPath = (id) => encodeURIComponent(String(id));

async function ask(path, request) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...request.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetch(new URL(path, document.baseURI), { ...request, headers, cache: "no-store" });
    const text = await response.text();
    if (response.status === 401) {
      await keyFromUser(key);
      continue;
    }
    let body = {};
    try { body = JSON.parse(text, exact); } catch { /* not JSON: a proxy, perhaps */ }
    if (!response.ok) throw new Refused(response.status, body);
    return body;
  }
}

let asking = null;

/** One dialog, however many requests wait for it. */
function keyFromUser(tried) {
  if (sessionStorage.getItem(KEY) !== tried) return Promise.resolve(); // another request has asked meanwhile
  asking ??= new Promise((done) => {
    const dialog = byId("key-dialog");
    byId("key-wrong").hidden = !tried;
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    byId("key-form").addEventListener("submit", () => {
      sessionStorage.setItem(KEY, byId("key").value.trim());
      byId("key").value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
    byId("key").focus();
  });
  return asking;
}
