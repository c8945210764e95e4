// A temporal computation tree, from the node at the left to its contacts' contacts at the right.

import { el, hashOf, named, short, svg } from "./dom.js";
import { sideAfter } from "./sides.js";
import { ago, span, time } from "./words.js";

const ROW = 26, TOP = 16, GAP = 92; // pixels; GAP is what an edge and its time need beside the label
const pen = document.createElement("canvas").getContext("2d"); // measures labels
const MOST = 28, LEAST = 9; // letters of a label: no more than these, and fewer where the tree would not fit

/** Give every node of the tree its place: leaves one below the other, parents in the middle of their children. */
function placed(root) {
  const all = [];
  let row = 0;
  const place = (node, depth, parent) => {
    const made = { ...node, depth, parent };
    all.push(made);
    const below = node.children.map((child) => place(child, depth + 1, made));
    made.y = below.length ? (below[0].y + below.at(-1).y) / 2 : TOP + ROW * row++;
    return made;
  };
  place(root, 0, null);
  return { all, height: TOP * 2 + ROW * Math.max(row - 1, 0) };
}

/** 1 for the newest contact of the tree, 0.3 for the oldest: by rank, since times may lie seconds or years apart. */
function freshness(all) {
  const ages = [...new Set(all.filter((node) => node.parent).map((node) => Number(node.dt)))].sort((a, b) => a - b);
  const rank = new Map(ages.map((age, i) => [age, ages.length < 2 ? 1 : 1 - (0.7 * i) / (ages.length - 1)]));
  return (node) => rank.get(Number(node.dt)) ?? 1;
}

export function drawTree(where, list, root, side) {
  const { all, height } = placed(root);
  const depth = Math.max(...all.map((node) => node.depth));
  pen.font = `650 13px ${getComputedStyle(document.body).fontFamily}`;
  const layout = (most) => { // with labels of at most so many letters
    const label = (node) => pen.measureText(short(node.id, most)).width + 16;
    const widths = Array.from({ length: depth + 1 }, (_, i) => Math.max(...all.filter((n) => n.depth === i).map(label)));
    const starts = widths.map((_, i) => 12 + widths.slice(0, i).reduce((sum, wide) => sum + wide + GAP, 0));
    return { most, label, starts, width: starts[depth] + widths[depth] + 6 };
  };
  let found = layout(MOST);
  while (found.width > where.clientWidth && found.most > LEAST) found = layout(found.most - 1);
  const { most, label, starts, width } = found;
  const fresh = freshness(all);
  const edges = all.filter((node) => node.parent).map((node) => {
    const x1 = starts[node.depth - 1] + label(node.parent), x2 = starts[node.depth] - 7, flat = x2 - 46, bend = (flat - x1) * 0.6;
    return svg("g", {},
      svg("path", { class: "edge", opacity: fresh(node).toFixed(2),
        d: `M${x1} ${node.parent.y}C${x1 + bend} ${node.parent.y} ${flat - bend} ${node.y} ${flat} ${node.y}H${x2}` }),
      svg("text", { class: "tick end edge-time", x: x2 - 4, y: node.y - 4 }, span(node.dt), svg("title", {}, `at ${time(node.t)}`)));
  });
  const nodes = all.map((node) => svg("a", { href: hashOf(node.id, sideAfter(node.depth, side)), class: node.parent ? "tree-node" : "tree-node root",
    "aria-label": node.parent ? `${node.id}, ${ago(node.dt)}` : `${node.id}, the node itself` },
    svg("rect", { class: "target", x: starts[node.depth] - 8, y: node.y - ROW / 2, width: label(node) + 6, height: ROW, rx: 5 }),
    svg("circle", { cx: starts[node.depth], cy: node.y, r: node.parent ? 5 : 7, opacity: fresh(node).toFixed(2) }),
    svg("text", { x: starts[node.depth] + 11, y: node.y + 4 }, short(node.id, most), svg("title", {}, String(node.id)))));
  where.replaceChildren(svg("svg", { width, height, role: "group",
    "aria-label": `Tree of ${all.length - 1} contacts around ${root.id}` }, edges, nodes));
  const item = (node, depth) => el("li", {}, named(node.id, "a", { href: hashOf(node.id, sideAfter(depth, side)) }),
    node.dt === undefined ? "" : ` – ${ago(node.dt)}, at ${time(node.t)}`,
    node.children.length ? el("ul", {}, node.children.map((child) => item(child, depth + 1))) : null);
  list.replaceChildren(all.length > 1 ? el("ul", { class: "tree-list" }, item(root, 0)) : el("p", { class: "muted" }, "No contacts yet."));
}
