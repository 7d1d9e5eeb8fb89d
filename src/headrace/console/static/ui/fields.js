/** Fields of forms: a label, the control, a hint, and the place of an error. */

import { h } from "../dom/element.js";

/** @typedef {import("../dom/element.js").Child} Child */

let made = 0;

/**
 * A control with its label. `check` gives what is wrong with a value, or "".
 *
 * @template {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} T
 * @param {string} label
 * @param {T} control
 * @param {{ hint?: Child, check?: (value: string) => string }} [options]
 * @returns {{ element: HTMLElement, control: T, value: () => string, isRight: () => boolean, complain: (words: string) => void }}
 */
export function field(label, control, { hint, check = () => "" } = {}) {
  made += 1;
  control.id = control.id || `field-${made}`;
  const error = h("span", { class: "error", id: `${control.id}-error`, role: "alert" });
  const hintId = hint ? `${control.id}-hint` : "";
  const describe = (/** @type {string} */ ids) => (ids ? control.setAttribute("aria-describedby", ids) : control.removeAttribute("aria-describedby"));
  describe(hintId);
  const complain = (/** @type {string} */ words) => {
    error.textContent = words;
    if (words) {
      control.setAttribute("aria-invalid", "true");
    } else control.removeAttribute("aria-invalid");
    describe([words && error.id, hintId].filter(Boolean).join(" "));
  };
  control.addEventListener("input", () => complain(""));
  return {
    element: h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint && h("span", { class: "hint", id: hintId }, hint), error),
    control,
    value: () => control.value,
    isRight: () => {
      const words = check(control.value);
      complain(words);
      return !words;
    },
    complain,
  };
}

/** @param {import("../dom/element.js").Attributes} [attributes] */
export function input(attributes = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes, class: `input ${attributes.class ?? ""}`.trim() });
}

/** @param {import("../dom/element.js").Attributes} [attributes] */
export function textarea(attributes = {}) {
  const { value = "", ...rest } = attributes;
  const made = h("textarea", { spellcheck: "false", ...rest, class: `textarea ${attributes.class ?? ""}`.trim() });
  made.value = String(value);
  return made;
}

/**
 * @param {[string, string][]} options value and label
 * @param {import("../dom/element.js").Attributes} [attributes]
 */
export function select(options, attributes = {}) {
  const { value, ...rest } = attributes;
  const made = h("select", { ...rest, class: `select ${attributes.class ?? ""}`.trim() }, options.map(([key, label]) => h("option", { value: key }, label)));
  if (value !== undefined) made.value = String(value);
  return made;
}

/**
 * A box to tick.
 *
 * @param {string} label
 * @param {{ checked?: boolean, hint?: Child, onchange?: (isOn: boolean) => void, disabled?: boolean }} [options]
 */
export function checkbox(label, { checked = false, hint, onchange, disabled = false } = {}) {
  const control = h("input", { type: "checkbox", checked, disabled });
  control.addEventListener("change", () => onchange?.(control.checked));
  return {
    element: h("label", { class: "check" }, control, h("span", {}, label, hint && h("span", { class: "muted small" }, " ", hint))),
    control,
  };
}

/**
 * The field of a search that filters what is below it.
 *
 * @param {string} label
 * @param {(text: string) => void} changed
 * @param {string} [value]
 */
export function filterInput(label, changed, value = "") {
  return h("input", {
    type: "search", class: "input", placeholder: label, "aria-label": label, value, spellcheck: "false", autocomplete: "off",
    oninput: (/** @type {Event} */ event) => changed(/** @type {HTMLInputElement} */ (event.target).value),
  });
}
