/** What stands where nothing is: why, in a sentence, and what a person can do next. */

import { foreign, h } from "../dom/element.js";
import { explained } from "../text/problems.js";
import { withCode } from "./blocks.js";

/** @typedef {import("../dom/element.js").Child} Child */

/**
 * @param {string} title
 * @param {...(Child | Child[])} next
 */
export function empty(title, ...next) {
  return h("div", { class: "empty" }, h("strong", {}, title), ...next);
}

/**
 * An error in words, with what to do about it.
 *
 * @param {unknown} error
 * @param {...Child} actions
 */
export function failure(error, ...actions) {
  const { title, next, detail } = explained(error);
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("strong", {}, title),
    next && h("p", {}, withCode(next)),
    detail && h("p", { class: "why small" }, foreign(detail)),
    actions.length > 0 && h("div", { class: "buttons" }, actions),
  );
}
