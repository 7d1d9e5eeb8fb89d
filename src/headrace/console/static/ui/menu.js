/** A button with a list below it, closed by Escape, by a choice and by a click elsewhere. */

import { h, replace } from "../dom/element.js";
import { icon } from "./icons.js";

/** @typedef {import("../dom/element.js").Child} Child */

/**
 * @param {string} label
 * @param {() => Child[]} items made anew each time
 * @param {{ icon?: import("./icons.js").Icon, kind?: string, bare?: boolean }} [options] `bare`: the icon alone is seen
 */
export function menu(label, items, { icon: name, kind = "quiet small", bare = false } = {}) {
  const list = h("div", { class: "list", hidden: true });
  const button = h(
    "button",
    { class: `button ${kind}`, type: "button", "aria-expanded": "false", "aria-label": bare ? label : null, title: bare ? label : null },
    name && icon(name, 14),
    !bare && label,
  );
  const box = h("div", { class: "menu" }, button, list);
  const close = () => {
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("click", outside, true);
  };
  /** @param {Event} event */
  const outside = (event) => {
    if (!box.contains(/** @type {Node} */ (event.target))) close();
  };
  button.addEventListener("click", () => {
    if (!list.hidden) return close();
    replace(list, items());
    list.hidden = false;
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("click", outside, true);
    return undefined;
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || list.hidden) return;
    event.stopPropagation();
    close();
    button.focus();
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(/** @type {Node} */ (relatedTarget))) close();
  });
  list.addEventListener("click", (event) => {
    if (/** @type {Element} */ (event.target).closest("button, a")) close();
  });
  return box;
}
