// One node: what is known about it, its neighborhood, and where it is likely to go next.

import { get, inPath } from "./api.js";
import { asksColumn } from "./ask.js";
import { byId, el, facts, hashOf, hashOfPair, meter, named, put, say, short } from "./dom.js";
import { chosen } from "./relation.js";
import { sideAfter, sideOf } from "./sides.js";
import { drawTree } from "./tree.js";
import { ago, count, fixed, percent, time } from "./words.js";

let shown = null; // the node on the page, as the service spells it
let asked = {}; // as the address spells it
let side = null; // of the node, where sources and destinations are named apart
let tree = null;
let seen = null; // the clock that the recommendations were made for
let turn = 0;

export const isShown = (id, wanted) => shown !== null && asked.id === String(id) && asked.side === wanted;

export async function showNode(id, wanted, focus = true) {
  const mine = ++turn;
  asked = { id: String(id), side: wanted };
  byId("about-node").hidden = false;
  byId("about-node").setAttribute("aria-busy", "true");
  try {
    const about = await get(`nodes/${inPath(id)}`, { depth: byId("depth").value, neighbors: byId("breadth").value, side: wanted });
    if (mine !== turn) return;
    [shown, side] = [about.node, about.side];
    document.title = `${short(shown)} · pintgn live`;
    put("node-title", el("span", { class: "muted" }, "Node "), named(shown));
    facts("node-facts", about.known ? [
      ["Side", side && (side === "dst" ? "destination" : "source")],
      ["Contacts", count(about.degree)], ["First seen", time(about.first_seen)],
      ["Last seen", `${time(about.last_seen)} (${ago(Number(about.at) - Number(about.last_seen))})`],
    ] : [["Contacts", "none: never seen before, scored as a new node"]]);
    tree = about.tree;
    drawTree(byId("tree"), byId("tree-list"), tree, side);
    if (focus) byId("node-title").focus({ preventScroll: false });
    await recommend(mine).catch((error) => { // the node itself is there all the same
      if (mine !== turn) return;
      put("next");
      say("next-note", `${error.message} ${error.next ?? ""}`);
    });
  } catch (error) {
    if (mine === turn) failed(error);
  } finally {
    if (mine === turn) byId("about-node").removeAttribute("aria-busy");
  }
}

async function recommend(mine) {
  if (asksColumn()) return; // of such a run the form asks
  const by = chosen(), wrong = side !== null && side !== (sideOf(by) ?? "src"); // where sides are named apart
  byId("other").hidden = wrong;
  seen = null;
  if (wrong) { // what it is likely to do next is for its sources to say, or to be asked by an inverse relation
    put("next");
    say("next-note", side === "src" ? `A source: ${by} leads from destinations. Choose a relation without ^.`
      : `A destination: events lead to it, not from it. ${by === null ? "Open one of its contacts to see what is likely next." : "Choose an inverse relation, ^, to see from whom."}`);
    return;
  }
  say("next-note", "Ranking every destination …");
  const answer = await get(`recommend/${inPath(shown)}`, { k: byId("k").value, relation: by });
  if (mine !== turn) return;
  seen = String(answer.at);
  byId("refresh").classList.remove("eager");
  const first = answer.items[0], doubt = first?.notes ? ` (${first.notes})` : "";
  say("next-note", first ? `As of ${time(answer.at)}${doubt}: how likely each is to be the next${by === null ? "" : ` by ${by}`}.` : "There is no destination to recommend yet.");
  put("next", answer.items.map((item) => el("li", {},
    named(item.dst, "a", { class: "name", href: hashOf(item.dst, sideAfter(1, side)) }),
    meter(item.next_probability, "probability of being the next", first.next_probability),
    el("span", { class: "number", title: `against one random destination ${percent(item.probability)}, logit ${fixed(item.logit)}` },
      percent(item.next_probability)),
    el("a", { class: "button small why", href: hashOfPair(shown, item.dst, by), "aria-label": `Why ${item.dst}?` }, "Why?"))));
}

/** The clock has moved: what is shown is not the newest. */
export function newer(clock) {
  if (seen === null || byId("about-node").hidden) return;
  if (Number(clock) >= Number(seen)) {
    byId("refresh").classList.add("eager");
    say("next-note", `As of ${time(seen)}; there are newer events.`);
  }
}

function failed(error) {
  shown = null;
  put("node-title", "Node");
  facts("node-facts", []);
  put("tree");
  put("tree-list");
  put("next");
  say("next-note", `${error.message} ${error.next ?? ""}`);
}

export function setUpNode() {
  if (matchMedia("(max-width: 560px)").matches) byId("depth").value = "1"; // what a small screen can hold
  const again = () => shown !== null && showNode(asked.id, asked.side, false);
  for (const id of ["depth", "breadth", "k", "by"]) byId(id).addEventListener("change", again);
  byId("refresh").addEventListener("click", again);
  byId("other").addEventListener("submit", (event) => {
    event.preventDefault();
    const other = byId("other-id").value.trim();
    if (other && shown !== null) location.hash = hashOfPair(shown, other, chosen());
  });
  new ResizeObserver(() => tree && drawTree(byId("tree"), byId("tree-list"), tree, side)).observe(byId("tree"));
}
