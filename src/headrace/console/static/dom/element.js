/**
 * Elements made in code. All text goes in as text nodes: nothing that comes from the wire is ever read as HTML.
 * Never here: what an element means (ui/).
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => unknown)>} Attributes */

/**
 * An element with attributes and children. `on…` attributes are listeners, `true` is an attribute without a value,
 * `false`, `null` and `undefined` leave it out; numbers and strings become text.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  decorate(element, attributes);
  fill(element, ...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An SVG element, made as `h` makes one of HTML.
 *
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  decorate(element, attributes);
  fill(element, ...children);
  return element;
}

/**
 * Put other children in the place of an element's own.
 *
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function replace(parent, ...children) {
  parent.replaceChildren();
  fill(parent, ...children);
}

/**
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Text of others: a subject, a name, a payload. Shown as it is, in a direction of its own; characters that would not
 * be seen are shown by their code.
 *
 * @param {unknown} text
 * @param {string} [className]
 */
export function foreign(text, className = "") {
  return h("span", { class: `foreign ${className}`.trim(), dir: "auto" }, visible(String(text ?? "")));
}

const UNSEEN = /\r(?!\n)|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0001}\u{e0020}-\u{e007f}]/gu;

/**
 * Text with its control characters, marks of direction and letters without a width as `\u{…}`. The end of a line may be
 * that of Windows.
 *
 * @param {string} text
 */
export function visible(text) {
  return text.replace(UNSEEN, (mark) => `\\u{${mark.codePointAt(0)?.toString(16)}}`);
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
function decorate(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "value" && "value" in element) element.value = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}
