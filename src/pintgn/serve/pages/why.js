// Why a pair is scored as it is: the three reasons that matter most, and behind them all the others.

import { get, json } from "./api.js";
import { byId, el, named, nodeLink, put, short } from "./dom.js";
import { watch } from "./history.js";
import { sideAfter } from "./sides.js";
import { adds, compact, fixed, percent } from "./words.js";

const SHOWN = 3; // reasons of a kind before the rest is folded away
let turn = 0;

/** `dst` is null for a question about one node; `given` is what was given with a question about a column, `by` the
 * relation by which the two meet. */
export async function showWhy(src, dst, given = null, by = null) {
  const mine = ++turn;
  const panel = byId("why");
  panel.hidden = false;
  put("why-title", el("span", {}, "Why "), named(src), dst === null ? null : [el("span", {}, " → "), named(dst)],
    by === null ? null : el("span", { class: "muted" }, ` by ${by}`));
  put("why-body", el("p", { class: "muted", role: "status" }, "Working it out …"));
  byId("why-title").focus();
  panel.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  try {
    const why = await get("explain", { src, dst, given: given === null ? null : json(given), relation: by });
    if (mine !== turn) return;
    put("why-body", body(why));
    if (why.logit !== null && isLink(why)) watch(why.src, why.dst, why, by);
  } catch (error) {
    if (mine === turn) put("why-body", el("p", { class: "wrong", role: "alert" }, `${error.message} ${error.next ?? ""}`));
  }
}

export function hideWhy() {
  turn += 1;
  byId("why").hidden = true;
}

const isLink = (why) => !Object.keys(why.answer).length;
const number = (without) => without.logit ?? without.value;

function body(why) {
  const every = [...why.reasons, ...why.neighbors];
  const most = Math.max(...every.map((r) => Math.abs(r.without?.adds ?? 0)), 1e-9);
  const others = (side, id) => section(`What ${short(id)} does with others`, why.neighbors.filter((r) => r.of === side), most);
  return [
    !why.said ? null : isLink(why) ? el("p", { class: "big" }, percent(why.probability), " ",
      el("span", { class: "muted small" }, `against one random destination, at ${why.when}`))
      : el("p", { class: "big" }, why.said, " ", el("span", { class: "muted small" }, `at ${why.when}`)),
    why.main.length ? el("ol", { class: "main" }, why.main.map((reason) => el("li", {}, el("div", { class: "what" }, told(reason)),
      reason.without ? effect(reason, most, `${reason.kind === "given" ? "if as usual" : "without"}: ${reason.without.probability === null ? reason.without.said : percent(reason.without.probability)}`, why.measure) : null)))
      : el("ul", { class: "plain" }, why.sentences.map((line) => el("li", {}, line))),
    el("details", { class: "rest" }, el("summary", {}, every.length ? `Everything: ${every.length} reasons, and the walks behind them` : "Everything"),
      el("ul", { class: "summary" }, why.summary.map((line) => el("li", {}, line))),
      groups(why).map(([title, reasons]) => section(title, reasons, most)),
      el("div", { class: "columns tight" }, others("src", why.src), why.dst === null ? null : others("dst", why.dst)),
      el("p", { class: "muted small note" }, !why.said ? why.note
        : `${why.logit === null ? "" : `Logit ${fixed(why.logit)}. `}${why.note} A number is what those events add to it. Reasons overlap: the numbers do not add up.`)),
    why.exact || !why.said ? null : el("p", { class: "muted small note" }, why.note),
  ];
}

/** A reason as a sentence, its nodes as links. */
const told = (reason) => reason.wording.split(/\{(\d+)\}/).map((part, i) =>
  (i % 2 ? nodeLink(reason.nodes[part], sideAfter(Number(part), reason.of)) : part));

/** What joins the two: their own contacts, then walks by where they start and how long they are. */
function groups(why) {
  const asked = ["given", "known"];
  const found = [["What is given and known", why.reasons.filter((reason) => asked.includes(reason.kind))],
    ["Between the two", why.reasons.filter((reason) => reason.kind !== "walks" && !asked.includes(reason.kind))]];
  for (const steps of [2, 3]) {
    for (const [of, from, to] of [["src", why.src, why.dst], ["dst", why.dst, why.src]]) {
      found.push([`From ${short(from)} back to ${short(to)} in ${steps === 2 ? "two" : "three"} steps`,
        why.reasons.filter((reason) => reason.kind === "walks" && reason.steps === steps && reason.of === of)]);
    }
  }
  return found;
}

function section(title, reasons, most) {
  if (!reasons.length) return null;
  const rows = reasons.map((reason) => row(reason, most)), rest = rows.splice(SHOWN);
  return el("div", {}, el("h3", {}, title), el("ul", { class: "reasons" }, rows),
    rest.length ? el("details", { class: "more" }, el("summary", {}, `${rest.length} more`), el("ul", { class: "reasons" }, rest)) : null);
}

function row(reason, most) {
  return el("li", {}, el("div", { class: "what" }, reason.kind === "walks" ? chain(reason) : told(reason)),
    reason.without ? effect(reason, most, `without: ${fixed(number(reason.without), 2)}`) : null);
}

/** A walk: nodes, and between them when they met; it goes back in time. */
function chain(reason) {
  const link = (i) => nodeLink(reason.nodes[i], sideAfter(i, reason.of));
  const parts = [link(0)];
  reason.contacts.forEach((contact, i) => parts.push(
    el("span", { class: "step", title: `${contact.op === "delete" ? "parted" : "met"} at ${contact.when}` },
      `${contact.op === "delete" ? "parted " : ""}${contact.relation ? `by ${contact.relation}, ` : ""}${contact.ago}`),
    link(i + 1)));
  if (reason.walks > 1) parts.push(el("span", { class: "muted" }, `${compact(reason.walks)} such walks`));
  return el("span", { class: "chain", title: reason.text }, parts);
}

/** A bar to the right for what speaks for the link, to the left for what speaks against it. */
function effect(reason, most, without, measure = "answer") {
  const { adds: by } = reason.without;
  const bar = el("span", { class: by >= 0 ? "for" : "against" });
  bar.style.width = `${Math.max(1, (50 * Math.abs(by)) / most)}%`;
  const removed = reason.left_out === 1 ? "this event" : `these ${reason.left_out.toLocaleString("en-US")} events`;
  return el("div", { class: "effect", title: `Without ${removed} the ${measure} would be ${fixed(number(reason.without))}.` },
    el("span", { class: "scale", "aria-hidden": "true" }, bar), el("span", { class: "number" }, adds(by)),
    el("span", { class: "number muted without" }, without));
}
