// Small charts as SVG, drawn to the width that there is.

import { el, svg } from "./dom.js";

const PAD = { left: 44, right: 14, top: 10, bottom: 22 };

/** Bars of a recent past, newest at the right. */
export function bars(where, values, label) {
  const width = where.clientWidth || 160, height = 34, most = Math.max(...values, 1e-9), step = width / values.length;
  const drawn = values.map((value, i) => {
    const tall = value > 0 ? Math.max(1.5, (value / most) * (height - 2)) : 0;
    return svg("rect", { x: (i * step).toFixed(2), y: (height - tall).toFixed(2), width: Math.max(step - 0.6, 0.6).toFixed(2),
      height: tall.toFixed(2), class: "bar" });
  });
  where.replaceChildren(svg("svg", { width, height, role: "img", "aria-label": label },
    svg("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5, class: "axis" }), drawn));
}

/**
 * Lines over a common axis.
 * series: [{name, points: [[x, y]], color}], color a class such as line-1; reference: {y, name} or null;
 * low, high: of the y axis; showX, showY: words for values; label: the whole in a sentence.
 */
export function lines(where, { series, reference, low, high, showX, showY, label, empty }) {
  const points = series.flatMap((one) => one.points);
  if (!points.length) {
    where.replaceChildren(el("p", { class: "empty muted" }, empty));
    return;
  }
  const width = Math.max(where.clientWidth, 240), height = 190;
  const xs = points.map(([x]) => x), first = Math.min(...xs), last = Math.max(...xs), across = last - first || 1;
  const x = (value) => PAD.left + ((last === first ? 0.5 : (value - first) / across) * (width - PAD.left - PAD.right));
  const y = (value) => PAD.top + (1 - (value - low) / (high - low)) * (height - PAD.top - PAD.bottom);
  const marks = [0, 1, 2, 3, 4].map((i) => low + (i / 4) * (high - low));
  const grid = marks.map((value) => svg("g", {},
    svg("line", { x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: PAD.left - 6, y: y(value) + 4, class: "tick end" }, showY(value))));
  const ends = last === first ? [svg("text", { x: x(first), y: height - 5, class: "tick middle" }, showX(first))]
    : [svg("text", { x: PAD.left, y: height - 5, class: "tick" }, showX(first)),
      svg("text", { x: width - PAD.right, y: height - 5, class: "tick end" }, showX(last))];
  const drawn = series.filter((one) => one.points.length).map((one) => svg("g", { class: one.color },
    svg("polyline", { points: one.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "), class: "line" }),
    svg("circle", { cx: x(one.points.at(-1)[0]), cy: y(one.points.at(-1)[1]), r: 3.5, class: "dot" })));
  const wanted = reference && svg("g", { class: "reference" },
    svg("line", { x1: PAD.left, x2: width - PAD.right, y1: y(reference.y), y2: y(reference.y) }),
    svg("text", { x: PAD.left + 6, y: y(reference.y) > 30 ? y(reference.y) - 5 : y(reference.y) + 14, class: "tick" },
      reference.name));
  const one = series[0].points;
  const short = reference && one.length > 1 && svg("g", {}, // where a line is below its reference
    svg("clipPath", { id: "below" }, svg("rect", { x: 0, y: y(reference.y), width, height: height - PAD.bottom - y(reference.y) })),
    svg("polygon", { class: "short", "clip-path": "url(#below)", points: [...one.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`),
      `${x(one.at(-1)[0])},${y(reference.y)}`, `${x(one[0][0])},${y(reference.y)}`].join(" ") }));
  const reader = svg("g", { class: "reader", visibility: "hidden" },
    svg("line", { y1: PAD.top, y2: height - PAD.bottom }), svg("text", { y: PAD.top + 10, class: "tick strong" }));
  const picture = svg("svg", { width, height, role: "img", "aria-label": label }, grid, ends, short, wanted, drawn, reader);
  picture.addEventListener("pointermove", (event) => {
    const at = event.clientX - picture.getBoundingClientRect().left;
    const near = points.reduce((best, point) => (Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best));
    const told = series.map((one) => [one, one.points.find(([a]) => a === near[0])]).filter(([, point]) => point)
      .map(([one, point]) => `${series.length > 1 ? `${one.name} ` : ""}${showY(point[1])}`).join(", ");
    const [rule, text] = reader.children;
    for (const end of ["x1", "x2"]) rule.setAttribute(end, x(near[0]));
    const right = x(near[0]) > width / 2;
    text.setAttribute("x", x(near[0]) + (right ? -6 : 6));
    text.setAttribute("class", `tick strong ${right ? "end" : ""}`);
    text.textContent = `${showX(near[0])}: ${told}`;
    reader.setAttribute("visibility", "visible");
  });
  picture.addEventListener("pointerleave", () => reader.setAttribute("visibility", "hidden"));
  where.replaceChildren(picture);
}
