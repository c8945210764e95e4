// Building blocks. Whatever comes from outside becomes text, never markup.

import { sideOf } from "./sides.js";

const SVG = "http://www.w3.org/2000/svg";
const TAIL = 8; // letters at the end of an id that are always shown

export const byId = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return node;
}

export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export function put(where, ...children) {
  (typeof where === "string" ? byId(where) : where).replaceChildren(...children.flat(Infinity).filter(Boolean));
}

export function say(where, text) {
  const node = typeof where === "string" ? byId(where) : where;
  if (node.textContent !== text) node.textContent = text; // unchanged text is not announced again
}

/** Names and values as a description list. */
export function facts(where, rows) {
  put(where, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A bar that is filled by a share. */
export function meter(share, label, most = 1) {
  const filled = el("span", {});
  filled.style.width = `${(100 * share / (most || 1)).toFixed(1)}%`;
  return el("span", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 1,
    "aria-valuenow": share.toFixed(4) }, filled);
}

/** An id cut in the middle where so many letters are all there is room for, as in a drawing. */
export function short(id, most = 28) {
  const text = [...String(id)], tail = Math.min(TAIL, Math.floor((most - 1) / 2));
  return text.length <= most ? String(id) : `${text.slice(0, most - tail - 1).join("")}…${text.slice(-tail).join("")}`;
}

/** An id that gives up its middle where it does not fit; its end stays, which often tells it from others. */
export function named(id, tag = "span", attributes = {}) {
  const text = [...String(id)], cut = text.length > 2 * TAIL ? text.length - TAIL : text.length;
  return el(tag, { ...attributes, class: `id ${attributes.class ?? ""}`, title: String(id) },
    el("span", { class: "id-head" }, text.slice(0, cut).join("")),
    cut < text.length ? el("span", { class: "id-tail" }, text.slice(cut).join("")) : null);
}

export const nodeLink = (id, side) => named(id, "a", { class: "chip", href: hashOf(id, side) });

/** The address of a node; `side` says which is meant where sources and destinations are named apart. */
export const hashOf = (id, side = null) => `#node=${encodeURIComponent(String(id))}${side === null ? "" : `&side=${side}`}`;

/** The address of a pair, and of the relation by which they meet where there are any. */
export const hashOfPair = (src, dst, by = null) =>
  `${hashOf(src, sideOf(by))}&why=${encodeURIComponent(String(dst))}${by === null ? "" : `&by=${encodeURIComponent(by)}`}`;

export function fromHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { node: given.get("node"), why: given.get("why"), by: given.get("by"), side: given.get("side") === "dst" ? "dst" : null };
}
