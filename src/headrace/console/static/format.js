/**
 * Numbers, sizes, durations and times as people read them, by `Intl` in the browser's language.
 * Never here: elements. Durations of the wire are nanoseconds where a name ends in `Ns`, else seconds.
 */

const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** @param {number | bigint | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/**
 * A count that is short enough for a figure: 12,345 or 1.2M.
 * @param {number | null | undefined} value
 */
export function brief(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 100_000 ? whole.format(Math.round(value)) : short.format(value);
}

/**
 * A count for a place of four letters: 9,876 is 9876, 12,345 is 12.3K.
 * @param {number} value
 */
export function compact(value) {
  return value < 10_000 ? String(value) : short.format(value);
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let power = 0;
  let left = Math.abs(value);
  while (left >= 1024 && power < SIZES.length - 1) {
    left /= 1024;
    power += 1;
  }
  const text = power ? precise.format(left) : whole.format(Math.round(left));
  return `${value < 0 ? "-" : ""}${text} ${SIZES[power]}`;
}

/**
 * Something a second: 12,345/s.
 * @param {number | null | undefined} value
 */
export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return `${value > 0 && value < 10 ? precise.format(value) : brief(value)}/s`;
}

/** @param {number | null | undefined} value */
export function byteRate(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "–" : `${bytes(value)}/s`;
}

/** @param {number | null | undefined} value of 1 */
export function percent(value) {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : `${precise.format(value * 100)} %`;
}

const UNITS = /** @type {const} */ ([["d", 86_400], ["h", 3_600], ["m", 60]]);

/**
 * A duration in its two largest units: 3d 4h, 2m 5s, 1.3s, 12ms.
 * @param {number | null | undefined} seconds
 * @returns {string}
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0s";
  if (seconds < 0.001) return `${precise.format(seconds * 1e6)}µs`;
  if (seconds < 1) return `${precise.format(seconds * 1000)}ms`;
  if (seconds < 60) return `${precise.format(seconds)}s`;
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["m", 60];
  const large = Math.floor(seconds / size);
  const rest = seconds - large * size;
  const next = unit === "d" ? ["h", 3_600] : unit === "h" ? ["m", 60] : ["s", 1];
  const small = Math.floor(rest / Number(next[1]));
  return small ? `${large}${unit} ${small}${next[0]}` : `${large}${unit}`;
}

/** @param {number | null | undefined} ns */
export function durationNs(ns) {
  return ns === null || ns === undefined ? "–" : duration(ns / 1e9);
}

/**
 * A moment in local time.
 * @param {string | number | Date | null | undefined} value
 */
export function time(value) {
  const date = asDate(value);
  return date ? moment.format(date) : "–";
}

/** @param {string | number | Date | null | undefined} value */
export function clockTime(value) {
  const date = asDate(value);
  return date ? clock.format(date) : "–";
}

const exact = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });

/**
 * The time of day with its milliseconds.
 * @param {number} ms since 1970
 */
export function exactTime(ms) {
  return exact.format(ms);
}

/**
 * The same moment in UTC, for who hovers over it.
 * @param {string | number | Date | null | undefined} value
 */
export function utc(value) {
  const date = asDate(value);
  return date ? date.toISOString().replace("T", " ").replace("Z", " UTC") : "";
}

/**
 * How long ago a moment was, in seconds; null for Go's zero time and for what is no time.
 * @param {string | number | Date | null | undefined} value
 */
export function age(value) {
  const date = asDate(value);
  return date ? Math.max(0, (Date.now() - date.getTime()) / 1000) : null;
}

/**
 * @param {string | number | Date | null | undefined} value
 * @returns {Date | null}
 */
export function asDate(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = value instanceof Date ? value : new Date(typeof value === "string" ? value.replace(/(\.\d{3})\d+/, "$1") : value);
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1971 ? null : date;
}

/**
 * A duration as Go writes it (1h2m3.5s, 150ms, 12.3µs) in seconds; null where it is none.
 * @param {unknown} text
 */
export function goSeconds(text) {
  if (typeof text !== "string" || !text) return null;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h|d|y)/g)];
  if (!parts.length || parts.map((part) => part[0]).join("") !== text) return null;
  const sizes = /** @type {Record<string, number>} */ ({
    ns: 1e-9, us: 1e-6, "µs": 1e-6, "μs": 1e-6, ms: 1e-3, s: 1, m: 60, h: 3_600, d: 86_400, y: 31_536_000,
  });
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * sizes[unit], 0);
}

/**
 * A duration that a person typed: 30s, 5m, 1h30m, 7d; in nanoseconds. Null where it is none.
 * @param {string} text
 */
export function readDurationNs(text) {
  const seconds = goSeconds(text.trim().replaceAll(" ", ""));
  return seconds === null ? null : Math.round(seconds * 1e9);
}

/**
 * A size that a person typed: 100, 5MB, 5MiB, 1G (all by 1024, as nats-server reads them). Null where it is none.
 * @param {string} text
 */
export function readBytes(text) {
  const found = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)i?b?$/i.exec(text.trim());
  if (!found) return null;
  const power = ["", "k", "m", "g", "t", "p"].indexOf(found[2].toLowerCase());
  return Math.round(Number(found[1]) * 1024 ** power);
}
