/** What a person sets for the tail: subjects, a filter, a queue group; and the places to begin from. */

import { to } from "../../app.js";
import { foreign, h } from "../../dom/element.js";
import { isSubject } from "../../nats/subjects.js";
import { text } from "../../text/live.js";
import { linkButton } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";
import { checkbox, field, filterInput, input } from "../../ui/fields.js";

/** @typedef {import("../../dom/element.js").Child} Child */

/** So many subjects are listened to at a time. */
const MOST_PATTERNS = 20;

/**
 * What the address says of a tail.
 * @typedef {{ patterns: string[], queue: string, filter: string, showsSystem: boolean }} Wanted
 */

/**
 * @param {URLSearchParams} query
 * @returns {Wanted}
 */
export function readWanted(query) {
  return { patterns: (query.get("subject") ?? "").split(/\s+/).filter(Boolean), queue: (query.get("queue") ?? "").trim(), filter: query.get("filter") ?? "", showsSystem: query.get("system") === "1" };
}

/**
 * @param {Wanted} wanted
 * @param {boolean} [composes] the form of a message is open
 */
export function addressOf({ patterns, queue, filter, showsSystem }, composes = false) {
  return to("live", composes ? ["publish"] : [], { subject: patterns.join(" "), queue, filter, system: showsSystem ? 1 : "" });
}

/**
 * What is wrong with subjects or a queue group that were typed, or "".
 * @param {Wanted} wanted
 */
export function problemOf({ patterns, queue }) {
  const wrong = patterns.find((pattern) => !isSubject(pattern));
  if (wrong !== undefined) return text.wrongPattern(wrong);
  if (patterns.length > MOST_PATTERNS) return text.tooManyPatterns(MOST_PATTERNS);
  return /\s/.test(queue) ? text.wrongQueue : "";
}

/**
 * @param {Wanted} wanted
 * @param {{ go: (wanted: Wanted) => void, filtered: (typed: string) => void, isOn: boolean }} options `filtered`: the filter changes at once
 */
export function tailControls(wanted, { go, filtered, isOn }) {
  const patterns = field(text.patterns, input({ class: "mono", value: wanted.patterns.join(" "), placeholder: "orders.>", autocapitalize: "off", name: "subject" }), { hint: text.patternsHint });
  const queue = field(text.queue, input({ class: "mono medium", value: wanted.queue, autocapitalize: "off" }), { hint: text.queueHint });
  const system = checkbox(text.system, { checked: wanted.showsSystem });
  const filter = filterInput(text.filter, filtered, wanted.filter);
  filter.title = text.filterHint;
  const typed = () => ({ patterns: patterns.value().split(/\s+/).filter(Boolean), queue: queue.value().trim(), filter: filter.value, showsSystem: system.control.checked });
  patterns.complain(problemOf(wanted));
  return h(
    "form",
    {
      class: "card live-controls",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        const now = typed();
        const problem = problemOf(now);
        patterns.complain(problem);
        if (!problem) go(now);
      },
    },
    h("div", { class: "live-line" }, patterns.element, h("button", { class: `button ${isOn ? "" : "main"}`, type: "submit" }, text.listen), h("div", { class: "live-filter" }, filter)),
    h("details", { open: Boolean(wanted.queue) || wanted.showsSystem }, h("summary", { class: "muted small" }, text.more), h("div", { class: "live-more" }, queue.element, system.element)),
  );
}

/** What stands where nothing is listened to. @param {boolean} isOperator */
export function beginning(isOperator) {
  const places = /** @type {[string, string][]} */ ([[text.everything, ">"], isOperator ? [text.serverEvents, "$SYS.SERVER.> $SYS.ACCOUNT.>"] : [text.advisories, "$JS.EVENT.>"]]);
  return empty(
    text.nothing,
    h("p", {}, text.nothingNext),
    h("div", { class: "buttons" }, places.map(([label, pattern]) => linkButton(h("span", {}, label, " ", foreign(pattern, "mono muted")), to("live", [], { subject: pattern })))),
  );
}
