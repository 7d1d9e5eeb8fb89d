/**
 * The difference of two texts, line by line: what went with a minus, what came with a plus, what is the same folded.
 * Never here: how it is found (data/lines.js).
 */

import { lineDifference } from "../data/lines.js";
import { h, visible } from "../dom/element.js";
import { useStyles } from "../dom/styles.js";
import { text } from "../text/difference.js";

/** @typedef {import("../data/lines.js").Line} Line */

/** Around a change so many lines that are the same are shown. */
const AROUND = 3;
/** So many lines are drawn, and so many letters of one. */
const MOST_LINES = 2_000;
const LONGEST = 2_000;

/**
 * @param {string} before
 * @param {string} after
 * @returns {HTMLElement}
 */
export function difference(before, after) {
  void useStyles("difference");
  const parts = folded(lineDifference(before, after));
  const isSame = parts.every((part) => !Array.isArray(part) && part.kind === "same") || (parts.length === 1 && Array.isArray(parts[0]));
  if (isSame) return h("p", { class: "muted" }, text.nothing);
  const shown = parts.slice(0, MOST_LINES);
  return h(
    "div",
    { class: "difference code", role: "group", "aria-label": text.label, tabindex: "0" },
    shown.map((part) => (Array.isArray(part) ? foldedLines(part) : line(part))),
    parts.length > shown.length && h("p", { class: "muted" }, text.more(parts.length - shown.length)),
  );
}

/**
 * The lines, those that are the same and far from a change as lists of their own.
 * @param {Line[]} lines
 * @returns {(Line | Line[])[]}
 */
function folded(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach((one, place) => {
    if (one.kind !== "same") near.fill(1, Math.max(0, place - AROUND), place + AROUND + 1);
  });
  const parts = /** @type {(Line | Line[])[]} */ ([]);
  lines.forEach((one, place) => {
    const last = parts[parts.length - 1];
    if (near[place]) parts.push(one);
    else if (Array.isArray(last)) last.push(one);
    else parts.push([one]);
  });
  return parts;
}

/** @param {Line[]} lines */
function foldedLines(lines) {
  const box = h("div");
  const details = h("details", {}, h("summary", { class: "muted" }, text.same(lines.length)), box);
  details.addEventListener("toggle", () => {
    if (details.open && !box.childNodes.length) box.append(...lines.slice(0, MOST_LINES).map(line));
  });
  return details;
}

const MARKS = /** @type {const} */ ({ same: " ", gone: "−", new: "+" });

/** @param {Line} one */
function line(one) {
  const words = one.kind === "gone" ? text.gone : one.kind === "new" ? text.fresh : "";
  const cut = one.text.length > LONGEST ? `${one.text.slice(0, LONGEST)} …` : one.text;
  return h(
    "div",
    { class: `line ${one.kind}` },
    h("span", { class: "mark", "aria-hidden": "true" }, MARKS[one.kind]),
    words && h("span", { class: "hidden-visually" }, words),
    h("span", { class: "foreign", dir: "auto" }, visible(cut) || "\u00a0"),
  );
}
