// A run that predicts a column: a form for one event with what is given about it, and its answer.

import { json, post } from "./api.js";
import { byId, el, meter, put, say } from "./dom.js";
import { compact, percent, time } from "./words.js";
import { showWhy } from "./why.js";

const ENDS = ["src", "dst"];
let asks = null; // what the form asks for, as /status says
let turn = 0;

export const asksColumn = () => asks !== null;

/** Make the form once what is asked is known, or again when another run has been promoted. */
export function setAsk(model, data) {
  const made = json([model.asks, data.columns]);
  if (byId("ask").dataset.made === made) return;
  byId("ask").dataset.made = made;
  asks = model.asks ?? null;
  byId("ask").hidden = asks === null;
  for (const id of ["likely", "followed"]) byId(id).hidden = asks !== null;
  if (asks === null) return;
  say("ask-title", `Ask: ${asks.title}`);
  const ends = asks.sides.map((side) => field(`ask-${ENDS[side]}`, data.columns[ENDS[side]],
    el("input", { id: `ask-${ENDS[side]}`, type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true, placeholder: "An id" })));
  put("ask-form", ends, asks.given.map((one, i) => field(`given-${i}`, one.name, control(one, `given-${i}`))),
    el("button", { type: "submit", class: "go eager" }, "Answer"));
  put("ask-answer", el("p", { class: "muted small" }, asks.given.length
    ? "An event that is about to happen: who, and what is known about it already." : "Who is asked about; answers are as of right after the newest event."));
}

/** A node was opened: ask about it. */
export function askAbout(id, side) {
  if (asks === null) return;
  const end = asks.sides.length === 1 ? ENDS[asks.sides[0]] : side === "dst" ? "dst" : "src";
  byId(`ask-${end}`).value = String(id);
}

const field = (id, name, input) => el("div", { class: "field" }, el("label", { for: id }, name), input);

function control(one, id) {
  if (one.kind === "number") {
    return el("input", { id, type: "number", step: "any", required: true, placeholder: one.example === null ? "" : `such as ${compact(one.example)}` });
  }
  if (!one.choices.length) return el("input", { id, type: "text", required: true });
  return el("select", { id }, one.choices.map((choice, i) => el("option", { value: i }, String(choice))));
}

function given() {
  const found = {};
  asks.given.forEach((one, i) => {
    const { value } = byId(`given-${i}`);
    found[one.name] = one.kind === "number" ? Number(value) : one.choices.length ? one.choices[Number(value)] : value;
  });
  return found;
}

export async function ask() {
  const mine = ++turn, ends = {};
  for (const end of ENDS) ends[end] = byId(`ask-${end}`)?.value.trim() ?? null;
  const [src, dst] = [ends.src ?? ends.dst, ends.dst ?? ends.src]; // a question about a node has one of them
  const told = given();
  byId("ask-answer").setAttribute("aria-busy", "true");
  try {
    const said = await post("score", { pairs: [{ src: named(src), dst: named(dst), ...(asks.given.length ? { given: told } : {}) }] });
    if (mine !== turn) return;
    say("ask-as-of", `as of ${time(said.at)}`);
    put("ask-answer", answer(said.scores[0], said.predict),
      el("p", {}, el("button", { type: "button", class: "small", onclick: () => showWhy(src, asks.sides.length === 1 ? null : dst, asks.given.length ? told : null) }, "Why?")));
  } catch (error) {
    if (mine === turn) put("ask-answer", el("p", { class: "wrong", role: "alert" }, `${error.message} ${error.next ?? ""}`));
  } finally {
    if (mine === turn) byId("ask-answer").removeAttribute("aria-busy");
  }
}

let numbers = false;
export const setIds = (data) => { numbers = data.ids === "numbers"; };
const named = (id) => (numbers && /^-?\d+$/.test(id) ? BigInt(id) : id);

/** An answer: the share of each class, a value with its interval, or one probability. */
function answer(row, predict) {
  const doubt = row.notes ? el("p", { class: "muted small" }, `Note: ${row.notes}.`) : null;
  const classes = Object.entries(row).filter(([name]) => name.startsWith(`${predict}=`));
  if (classes.length) {
    const sorted = classes.sort(([, a], [, b]) => b - a);
    return [el("p", { class: "big" }, sorted[0][0], " ", el("span", { class: "muted small" }, percent(sorted[0][1]))),
      el("ul", { class: "shares" }, sorted.slice(0, 8).map(([name, p]) => el("li", {}, el("span", { class: "id" }, name.slice(predict.length + 1)),
        meter(p, name), el("span", { class: "number" }, percent(p))))), doubt];
  }
  if (row.median !== undefined) {
    return [el("p", { class: "big" }, `${predict}: ${compact(Number(row.median.toPrecision(4)))} `, el("span", { class: "muted small" }, "as likely more as less")),
      interval(row), doubt];
  }
  return [el("p", { class: "big" }, percent(row.probability), " ", el("span", { class: "muted small" }, asks.title)),
    meter(row.probability, asks.title), doubt];
}

/** Nine of ten values lie on the bar; the line is the median. */
function interval(row) {
  const [low, median, high] = [row.low, row.median, row.high].map((value) => compact(Number(value.toPrecision(4))));
  const mark = el("span", { class: "median" });
  mark.style.left = `${(100 * (row.median - row.low)) / (row.high - row.low || 1)}%`;
  return el("div", { class: "interval", role: "img", "aria-label": `Nine of ten between ${low} and ${high}, half below ${median}` },
    el("span", { class: "number" }, low), el("span", { class: "range" }, mark), el("span", { class: "number" }, high),
    el("span", { class: "muted small under" }, "nine of ten lie between"));
}

export function setUpAsk() {
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
}
