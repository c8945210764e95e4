// Numbers and times as people read them.

const LENGTHS = [["y", 31557600], ["mo", 2629800], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const PER_SECOND = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };

let unit = null; // of the log's times: s, ms, us, ns since 1970, or null for plain numbers
let dates = null; // how they are written; Swedish for 2024-01-31 12:00:00

export function setTime(data) {
  unit = data.time_unit ?? null;
  if (!unit || dates) return;
  const form = { dateStyle: "short", timeStyle: "medium" };
  try {
    dates = new Intl.DateTimeFormat("sv-SE", { ...form, timeZone: data.time_zone ?? "UTC" });
  } catch { // a zone that this browser does not know
    dates = new Intl.DateTimeFormat("sv-SE", { ...form, timeZone: "UTC" });
  }
}

export const count = (value) => Number(value).toLocaleString("en-US");
export const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : signed(Number(value).toFixed(digits)));
export const adds = (value) => `${value >= 0 ? "+" : ""}${fixed(value, 2)}`;
const signed = (text) => text.replace("-", "−");

export function percent(p) {
  if (p > 0.9995) return "> 99.9 %";
  if (p < 0.0005) return "< 0.1 %";
  return `${(100 * p).toFixed(1)} %`;
}

export function compact(value) {
  const size = Math.abs(Number(value));
  if (size < 1e4) return count(Number.isInteger(Number(value)) ? value : Number(Number(value).toPrecision(3)));
  return Number(value).toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

export function rate(perSecond) {
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

/** How long something lasts, in one unit. */
export function lasts(seconds) {
  for (const [name, length] of LENGTHS) if (seconds >= length) return `${Math.floor(seconds / length)} ${name}`;
  return "< 1 s";
}

/** A difference of two times of the log. */
export const span = (dt) => (unit ? lasts(Number(dt) / PER_SECOND[unit]) : compact(dt));

/** How long before now. */
export const ago = (dt) => (unit ? `${span(dt)} ago` : `${span(dt)} before now`);

/** A time of the log. */
export function time(t) {
  if (t === null || t === undefined) return "–";
  if (!unit) return compactTime(t);
  const date = new Date((Number(t) / PER_SECOND[unit]) * 1e3);
  return Number.isNaN(date.valueOf()) ? String(t) : dates.format(date);
}

const compactTime = (t) => (Number.isInteger(Number(t)) ? String(t) : String(Number(Number(t).toPrecision(9))));
