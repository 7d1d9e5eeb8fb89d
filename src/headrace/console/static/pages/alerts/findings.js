/** The findings as a list: how bad, what, what to do next. */

import { foreign, h } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { text } from "../../text/alerts.js";
import { ago, status } from "../../ui/blocks.js";

/** @typedef {import("../../data/alerts.js").Finding} Finding */

/**
 * @param {Finding[]} findings
 * @param {boolean} hasAccount
 */
export function findingList(findings, hasAccount) {
  if (!findings.length) {
    return h("div", { class: "row" }, status("good", text.nothingFound), h("span", { class: "muted" }, hasAccount ? text.noFindings : text.noFindingsOperator));
  }
  return h(
    "ul",
    { class: "findings" },
    findings.map((finding) =>
      h(
        "li",
        {},
        status(finding.tone, text.tones[finding.tone]),
        h("div", {}, h("p", {}, foreign(findingWords(finding))), h("p", { class: "muted small" }, text.next[finding.kind], " ", text.since, " ", ago(finding.since))),
        finding.href && h("a", { class: "button small", href: finding.href }, text.open),
      ),
    ),
  );
}

/**
 * A finding as a sentence: sizes and counts as people read them.
 * @param {Finding} finding
 */
export function findingWords(finding) {
  const isCounted = finding.kind === "lag" || finding.kind === "streamMessages";
  return text.finding[finding.kind](...finding.args.map((value) => (typeof value === "number" ? (isCounted ? count(value) : bytes(value)) : value)));
}
