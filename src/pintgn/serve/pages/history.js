// The scores of pairs that were looked at, followed while events arrive.

import { json, post } from "./api.js";
import { lines } from "./chart.js";
import { byId, el, hashOfPair, named, put, short } from "./dom.js";
import { givenBy } from "./relation.js";
import { percent, time } from "./words.js";

const MOST = 6, POINTS = 300;
const pairs = new Map(); // by the pair as JSON: {src, dst, by, color, points: [[t, probability]]}
let busy = false;

export function watch(src, dst, scored, by = null) {
  const key = json([src, dst, by]);
  if (!pairs.has(key)) {
    const used = new Set([...pairs.values()].map((pair) => pair.color));
    if (pairs.size >= MOST) {
      const [oldest, { color }] = pairs.entries().next().value;
      pairs.delete(oldest);
      used.delete(color);
    }
    const color = [1, 2, 3, 4, 5, 6].map((i) => `line-${i}`).find((name) => !used.has(name));
    pairs.set(key, { src, dst, by, color, points: [] });
  }
  add(pairs.get(key), scored.at, scored.probability);
  drawHistory();
}

function add(pair, at, probability) {
  if (pair.points.length && pair.points.at(-1)[0] >= Number(at)) pair.points.pop();
  pair.points.push([Number(at), probability]);
  if (pair.points.length > POINTS) pair.points.splice(0, pair.points.length - POINTS);
}

/** Events have arrived: score every pair again. */
export async function follow() {
  if (busy || !pairs.size) return;
  busy = true;
  const asked = [...pairs.values()];
  try {
    const { at, scores } = await post("score", { pairs: asked.map(({ src, dst, by }) => ({ src, dst, ...givenBy(by) })) });
    scores.forEach(({ probability }, i) => add(asked[i], at, probability));
    drawHistory();
  } catch {
    /* the banner says what is wrong with the service; the next events will ask again */
  } finally {
    busy = false;
  }
}

export function drawHistory() {
  const all = [...pairs.values()];
  lines(byId("history-chart"), {
    series: all.map((pair) => ({ name: `${short(pair.src, 12)} → ${short(pair.dst, 12)}${pair.by === null ? "" : ` by ${pair.by}`}`, points: pair.points, color: pair.color })),
    low: 0, high: 1, showX: time, showY: (p) => `${Math.round(100 * p)} %`,
    label: `Probabilities against one random destination, of ${all.length} pairs over time: ${all.map((p) => `${p.src} to ${p.dst} ${percent(p.points.at(-1)[1])}`).join(", ")}`,
    empty: "Open a “Why?” and its pair is followed here.",
  });
  put("history-legend", all.map((pair) => el("li", { class: pair.color }, el("span", { class: "key" }),
    el("a", { class: "pair", href: hashOfPair(pair.src, pair.dst, pair.by) }, named(pair.src), "→", named(pair.dst),
      pair.by === null ? null : el("span", { class: "muted small by" }, `by ${pair.by}`)),
    el("span", { class: "number" }, percent(pair.points.at(-1)[1])),
    el("button", { type: "button", class: "quiet small", "aria-label": `Stop following ${pair.src} to ${pair.dst}`,
      onclick: () => { pairs.delete(json([pair.src, pair.dst, pair.by])); drawHistory(); } }, "✕"))));
}
