/** What depends on the rights of a user: judged when it is made, and again when rights have changed while it is shown. */

/** @type {WeakMap<Element, () => void>} */
const judges = new WeakMap();
const MARK = "data-judged";

/**
 * Judge an element now, and each time that rights change while it is in the document. Gives the element.
 *
 * @template {Element} E
 * @param {E} element
 * @param {() => void} judge
 */
export function judged(element, judge) {
  judges.set(element, judge);
  element.setAttribute(MARK, "");
  judge();
  return element;
}

/** Rights have changed. */
export function judgeAgain() {
  for (const element of document.querySelectorAll(`[${MARK}]`)) judges.get(element)?.();
}
