/** The fields that servers filter connections by: account, user, subject. A change takes effect by Enter, or when the field is left. */

import { h } from "../../dom/element.js";
import { text } from "../../text/connections.js";

/**
 * @param {{ query: URLSearchParams, isOperator: boolean, change: (changes: Record<string, string | undefined>) => void }} options
 */
export function filterFields({ query, isOperator, change }) {
  const account = query.get("account") ?? "";
  return [
    isOperator && filterField(text.account, account, (value) => change({ account: value, subject: value ? query.get("subject") ?? undefined : undefined })),
    filterField(text.user, query.get("user") ?? "", (value) => change({ user: value })),
    query.get("state") !== "closed" && filterField(text.subject, query.get("subject") ?? "", (value) => change({ subject: value }), isOperator && !account ? text.subjectNeedsAccount : ""),
  ];
}

/**
 * @param {string} label
 * @param {string} value
 * @param {(value: string) => void} changed
 * @param {string} [disabled] why
 */
function filterField(label, value, changed, disabled = "") {
  return h("input", {
    type: "text", class: "input server-filter", placeholder: label, "aria-label": label, value, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
    disabled: Boolean(disabled), title: disabled || label,
    onchange: (/** @type {Event} */ event) => changed(/** @type {HTMLInputElement} */ (event.target).value.trim()),
  });
}
