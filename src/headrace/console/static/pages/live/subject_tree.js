/** The tree of subjects with their counts, drawn once a second; what is folded is not made. */

import { foreign, h, replace } from "../../dom/element.js";
import { brief, bytes, count } from "../../format.js";
import { text } from "../../text/live.js";
import { icon } from "../../ui/icons.js";

/** @typedef {import("./subject_counts.js").SubjectNode} SubjectNode */

/** So many tokens below one are drawn, those with the most messages. */
const MOST_SHOWN = 50;

export class SubjectTree {
  /** @param {(pattern: string) => void} choose listens to these subjects alone */
  constructor(choose) {
    this.#choose = choose;
    this.element.addEventListener("click", (event) => this.#onClick(event));
  }

  element = h("div", { class: "subject-tree" });
  /** @type {(pattern: string) => void} */
  #choose;
  /** Subjects that a person opened or folded. @type {Map<string, boolean>} */
  #open = new Map();
  /** @type {SubjectNode | null} */
  #root = null;

  /** @param {SubjectNode} root */
  draw(root) {
    this.#root = root;
    const focused = /** @type {HTMLElement | null} */ (this.element.contains(document.activeElement) ? document.activeElement : null);
    const key = focused?.dataset.do && [focused.dataset.do, focused.dataset.subject];
    replace(this.element, root.count ? this.#list(root, 0) : h("p", { class: "muted live-pad" }, text.treeEmpty));
    if (key) /** @type {HTMLElement | undefined} */ ([...this.element.querySelectorAll("button")].find((button) => button.dataset.do === key[0] && button.dataset.subject === key[1]))?.focus({ preventScroll: true });
  }

  /**
   * @param {SubjectNode} node
   * @param {number} depth
   * @returns {HTMLElement}
   */
  #list(node, depth) {
    const children = [...node.children.values()].sort((a, b) => b.count - a.count || (a.token < b.token ? -1 : 1));
    const rest = children.length - MOST_SHOWN;
    return h(
      "ul",
      {},
      children.slice(0, MOST_SHOWN).map((child) => this.#item(child, depth)),
      rest > 0 && h("li", { class: "muted small" }, text.treeMore(count(rest))),
      node.others > 0 && h("li", { class: "muted small" }, text.treeOthers(count(node.others))),
    );
  }

  /**
   * @param {SubjectNode} node
   * @param {number} depth
   */
  #item(node, depth) {
    const hasMore = node.children.size > 0 || node.others > 0;
    const isOpen = hasMore && (this.#open.get(node.subject) ?? (depth === 0 && (node.parent?.children.size ?? 0) <= 8));
    const pattern = hasMore ? `${node.subject}.>` : node.subject;
    return h(
      "li",
      {},
      h(
        "div",
        { class: "subject-line" },
        hasMore
          ? h("button", { type: "button", class: "fold", "data-do": "open", "data-subject": node.subject, "aria-expanded": String(isOpen), "aria-label": text.open(node.subject) }, isOpen ? "▾" : "▸")
          : h("span", { class: "fold" }),
        h("button", { type: "button", class: "only", "data-do": "only", "data-subject": pattern, title: text.listenOnly(pattern) }, foreign(node.token, "mono"), icon("search", 12)),
        h("span", { class: "number", title: `${count(node.count)}, ${bytes(node.bytes)}` }, brief(node.count)),
      ),
      isOpen && this.#list(node, depth + 1),
    );
  }

  /** @param {Event} event */
  #onClick(event) {
    const pressed = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("button"));
    const { do: what, subject = "" } = pressed?.dataset ?? {};
    if (what === "only") this.#choose(subject);
    else if (what === "open" && this.#root) {
      this.#open.set(subject, pressed?.getAttribute("aria-expanded") !== "true");
      this.draw(this.#root);
    }
  }
}
