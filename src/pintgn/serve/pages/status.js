// The stream now: clock, rate, quality, and the cards of model, data and service.

import { bars, lines } from "./chart.js";
import { byId, el, facts, put, say } from "./dom.js";
import { setAsk, setIds } from "./ask.js";
import { setRelation } from "./relation.js";
import { setSides } from "./sides.js";
import { compact, count, fixed, lasts, rate, setTime, time } from "./words.js";

const FIGURES = { mrr: "MRR", ap: "AP", auc: "AUC", log_loss: "log loss", brier: "Brier", mae: "MAE", rmse: "RMSE", r2: "R²" };
let carded = "";
let last = null;

export function showStatus(status) {
  last = status;
  setTime(status.data);
  setSides(status.data);
  setIds(status.data);
  setAsk(status.model, status.data);
  setRelation(status.model);
  const [day, hour] = status.data.time_unit ? status.clock_text.split(" ") : ["", status.clock_text];
  say("clock", hour ?? day);
  say("clock-note", hour && day ? `${day} · newest event` : "newest event");
  say("rate", rate(status.rate_1m));
  say("events", count(status.events));
  say("events-note", `${count(status.live_events)} observed live`);
  say("nodes", count(status.nodes));
  say("nodes-note", status.nodes > status.data.nodes ? `${count(status.nodes - status.data.nodes)} new` : "all from the run’s log");
  drawRate(status);
  showQuality(status.quality);
  showCards(status);
}

function drawRate(status) {
  const recent = status.rate_history.slice(-60).map(([, per]) => per);
  if (recent.length) bars(byId("rate-chart"), recent, `Events per second over the last minute, at most ${compact(Math.max(...recent))}`);
}

function showQuality(quality) {
  const pill = byId("drift");
  if (!quality.active) {
    say("quality-now", "–");
    say("quality-note", "not measured");
    say("quality-text", "Events are not evaluated: the service was started with --evaluate-every 0, or what happens does not say the answer.");
    pill.hidden = true;
    return;
  }
  const name = quality.measure ?? "AP";
  const [now, reference] = name === "AP" ? [quality.ap_rolling, quality.reference_ap] : [quality.rolling, quality.reference];
  say("quality-now", now === null ? "–" : `${name} ${fixed(now)}`);
  say("quality-note", reference === null ? "" : `${fixed(reference)} on the run’s test part`);
  say("quality-text", `Rolling ${name} of ${quality.window ? `the last ${count(quality.window)}` : "no"} scored events. ${quality.every === 1 ? "Every event" : `One event in ${quality.every}`} is `
    + (quality.beside === false ? `asked about just before it happens, and counts once its answer is known.${waits(quality)}` : "scored just before it happens, beside one random destination."));
  const [word, kind] = quality.drift ? ["Drift: harder than the test part", "warn"]
    : quality.window < 200 ? [`${count(quality.scored)} scored so far`, ""] : ["Steady", "good"];
  say(pill, word);
  pill.className = `pill ${kind}`;
  pill.hidden = false;
  byId("quality-now").className = `big ${quality.drift ? "warn" : ""}`;
  const values = quality.history.map(([, ap]) => ap).concat(reference ?? []);
  const shares = name === "AP" || name === "AUC";
  const low = shares ? Math.max(0, Math.floor((Math.min(1, ...values) - 0.01) * 20) / 20) : 0, high = shares ? 1 : 1.15 * Math.max(...values, 1e-9);
  lines(byId("quality-chart"), {
    series: [{ name, points: quality.history.map(([t, ap]) => [Number(t), ap]), color: quality.drift ? "line-warn" : "line-1" }],
    reference: reference === null ? null : { y: reference, name: `test part ${fixed(reference)}` },
    low, high, showX: time, showY: (ap) => fixed(ap, low > 0.85 ? 3 : 2),
    label: `${name === "AP" ? "Average precision" : name} over time, now ${fixed(now)}, on the test part ${fixed(reference)}${quality.drift ? "; it drifts" : ""}`,
    empty: "The first point comes after 50 scored events.",
  });
}

const waits = ({ waiting, given_up: lost }) => (waiting ? ` ${count(waiting)} ${waiting === 1 ? "waits" : "wait"} for that${lost ? `, ${count(lost)} ${lost === 1 ? "was" : "were"} given up` : ""}.` : "");

function showCards(status) {
  const { model, data } = status;
  facts("service", [
    ["Up for", lasts(status.uptime)], ["Waiting to be written", count(status.waiting)],
    ["Waiting for their turn", status.held?.events ? count(status.held.events) : null],
    ["Contacts in memory", count(status.contacts)], ["Forgotten", status.forgotten ? count(status.forgotten) : null],
    ["Version", status.version],
  ]);
  const { candidate, history } = status.models;
  const name = (path) => path.split("/").pop();
  const day = (seconds) => new Date(Number(seconds) * 1000).toISOString().slice(0, 16).replace("T", " ");
  put("model-history", [
    ...(candidate ? [`${name(candidate.run)}: ${candidate.state}, ${count(candidate.scored)} of ${count(candidate.enough)} scored events`] : []),
    ...history.slice(-5).reverse().map((one) => `${day(one.ended)} ${name(one.run)}: ${one.state}, ${one.said}`),
  ].map((line) => el("li", { class: "small" }, line)));
  put("reports", status.reports.map((line) => el("li", { class: "wrong small" }, line)));
  const card = JSON.stringify([model, data], (_, value) => (typeof value === "bigint" ? String(value) : value));
  if (card === carded) return;
  carded = card;
  say("run-name", data.run ?? "");
  const two = (figures) => (figures ? Object.keys(FIGURES).filter((name) => typeof figures[name] === "number").slice(0, 3)
    .map((name) => `${FIGURES[name]} ${fixed(figures[name])}`).join(", ") || null : null);
  facts("model", [
    ["Model", model.class], ["Asked", model.asks?.title], ["By", model.relation && `${model.relation.name}, ${count(model.relation.words.length)} relations`], ["Parameters", count(model.parameters)], ["Trained", `best epoch ${model.best_epoch} of ${model.epochs}, seed ${model.seed}`],
    ["Test, all events", two(model.test)], ["Test, new nodes", two(model.test_new_nodes)],
    ...Object.entries(model.heuristics ?? {}).map(([name, figures]) => [`Beside it: ${name}`, two(figures)]),
  ]);
  facts("model-settings", Object.entries(model.settings).map(([name, value]) => [name, value === null ? "automatic" : String(value)]));
  facts("data", [
    ["Log", `${count(data.events)} events, ${count(data.nodes)} nodes`], ["From", data.first_text], ["To", data.last_text],
    ["Columns", [data.columns.src, data.columns.dst, data.columns.t, data.columns.op].filter(Boolean).join(", ")],
    ["Features", data.features.length ? data.features.join(", ") : "none"],
    ["Ids", `${data.ids}${data.separate_namespaces ? ", sources and destinations named apart" : ""}`],
    ["Times", data.time_unit ? `dates, counted in ${data.time_unit}` : "plain numbers"],
  ]);
}

export function redraw() {
  if (last) { drawRate(last); showQuality(last.quality); }
}
