/** Findings as a list: how bad each is, what it means, what to do, and the places it was found at. */

import { foreign, h } from "../dom/element.js";
import { text } from "../text/findings.js";
import { status, withCode } from "./blocks.js";

/** @typedef {import("../data/findings.js").Finding} Finding */
/** @typedef {import("./blocks.js").Tone} Tone */

const TONES = /** @type {Record<Finding["severity"], Tone>} */ ({ danger: "bad", warning: "warn", hint: "info" });
/** So many places of one finding are listed. */
const PLACES = 8;

/**
 * @param {Finding[]} findings
 * @param {{ most?: number, leads?: (symptom: import("../data/findings.js").Symptom) => boolean }} [options] `leads`: whether a
 *   place is a link; a login may be missing for its page
 */
export function findingList(findings, { most = findings.length, leads = () => true } = {}) {
  return h("ul", { class: "findings" }, findings.slice(0, most).map((finding) => item(finding, leads)));
}

/**
 * @param {Finding} finding
 * @param {(symptom: import("../data/findings.js").Symptom) => boolean} leads
 */
function item({ id, severity, title, advice, symptoms }, leads) {
  return h(
    "li",
    { class: "finding", "data-finding": id },
    status(TONES[severity], text.severity[severity]),
    h(
      "div",
      {},
      h("strong", {}, title),
      h("ul", { class: "places" }, symptoms.slice(0, PLACES).map((symptom) => h("li", {}, place(symptom, leads(symptom)), ": ", foreign(symptom.words))), symptoms.length > PLACES && h("li", { class: "muted" }, text.more(symptoms.length - PLACES))),
      h("p", { class: "muted" }, withCode(advice)),
    ),
  );
}

/**
 * @param {import("../data/findings.js").Symptom} symptom
 * @param {boolean} isLink
 */
function place({ place: name, href }, isLink) {
  return isLink && href ? h("a", { href }, foreign(name)) : foreign(name);
}

/**
 * How many there are of each severity, in words; "" where there are none.
 * @param {Finding[]} findings
 */
export function countedFindings(findings) {
  /** @param {Finding["severity"]} severity */
  const number = (severity) => findings.filter((finding) => finding.severity === severity).length;
  return text.summary(number("danger"), number("warning"), number("hint"));
}
