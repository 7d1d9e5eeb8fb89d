/**
 * The rows of a table that can be seen: a list of any length has those in view in the document, and a few beyond. The
 * focus goes from row to row, and stays where it is while rows are drawn again.
 * Never here: what a row shows, in which order rows are (table.js).
 */

import { h } from "../dom/element.js";

/** The height of a row, as in styles/tables.css: 2.25rem. */
const ROW = 36;
/** So many rows are in the document above and below those that are in view. */
const BEYOND = 10;
const FOCUSABLE = "a, button, input, select, summary";

/**
 * @template R
 * @typedef {object} WindowOptions
 * @property {string} label of the table
 * @property {(row: R) => string} key
 * @property {(row: R, place: number, isCurrent: boolean) => HTMLTableRowElement} make with `data-key` and `data-place`; the current row is
 *   the one that the focus comes to
 * @property {(row: R) => void} [open] a row was chosen
 * @property {(key: string) => void} [pick] a row was picked, where rows can be
 * @property {(row: R) => void} copy
 * @property {(rows: R[]) => void} [seen] the rows that are in view now
 */

/** @template R */
export class RowWindow {
  /** @param {WindowOptions<R>} options */
  constructor(options) {
    this.#options = options;
    this.#table = h("table", { class: "table windowed", "aria-label": options.label }, this.head, this.#body);
    this.element = h("div", { class: "table-box windowed", tabindex: "-1" }, this.#table);
    this.element.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.#body.addEventListener("click", (event) => this.#onClick(event));
    this.#body.addEventListener("keydown", (event) => this.#onKey(event));
    this.#body.addEventListener("pointerdown", () => this.#holdStill());
    new ResizeObserver(() => this.#onScroll()).observe(this.element);
  }

  head = h("thead");
  /** @type {WindowOptions<R>} */
  #options;
  /** @type {R[]} */
  #rows = [];
  #first = -1;
  #last = -1;
  /** The key of the row that has the focus, or had it last. */
  #current = "";
  #isPressed = false;
  #isDue = false;
  #frame = 0;
  #above = spacer();
  #below = spacer();
  #body = h("tbody");
  /** @type {HTMLTableElement} */
  #table;

  /** True while a person reads in the middle: scrolled down, or with the focus on a row. */
  get isHeld() {
    return this.element.scrollTop > 0 || this.#hasFocus;
  }

  get #hasFocus() {
    return document.activeElement !== document.body && this.#body.contains(document.activeElement);
  }

  /**
   * @param {R[]} rows
   * @param {number} total of all, where these are some of them
   */
  show(rows, total) {
    this.#rows = rows;
    this.#table.setAttribute("aria-rowcount", String(total + 1));
    this.element.hidden = rows.length === 0;
    this.draw();
  }

  scrollToTop() {
    this.element.scrollTop = 0;
  }

  /** Back to the first row, and the focus with it. */
  toTop() {
    const hadFocus = this.#hasFocus;
    this.#current = "";
    this.element.scrollTop = 0;
    if (hadFocus) this.element.focus({ preventScroll: true });
    this.draw();
  }

  /** Draw all rows in view again, since their cells may have changed. */
  draw() {
    this.#draw(true);
  }

  /** Draw once a frame, however many events a frame has. */
  #onScroll() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw(false);
    });
  }

  /** While a row is pressed the rows stay what they are: one that is replaced under the pointer gets no click. */
  #holdStill() {
    this.#isPressed = true;
    const release = () => {
      for (const kind of ["pointerup", "pointercancel"]) document.removeEventListener(kind, release, true);
      setTimeout(() => {
        this.#isPressed = false;
        if (this.#isDue) this.draw();
      }, 0);
    };
    for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, release, true);
  }

  /**
   * Draw the rows that are in view, and a few beyond; those that are there already stay.
   * @param {boolean} anew all of them
   */
  #draw(anew) {
    if (this.#isPressed) {
      this.#isDue = true;
      return;
    }
    this.#isDue = false;
    const inView = Math.ceil((this.element.clientHeight || 600) / ROW);
    const top = Math.floor(this.element.scrollTop / ROW);
    const first = Math.max(0, top - BEYOND);
    const last = Math.min(this.#rows.length, top + inView + BEYOND);
    if (!anew && first === this.#first && last === this.#last) return;
    [this.#first, this.#last] = [first, last];
    const focused = this.#focusInRow();
    if (anew) this.#body.replaceChildren(this.#above, this.#below);
    this.#fit(first, last);
    if (!this.#body.querySelector('tr[tabindex="0"]')) this.#body.querySelector("tr[data-key]")?.setAttribute("tabindex", "0");
    if (focused) this.#focusAgain(focused);
    this.#options.seen?.(this.#rows.slice(first, last));
  }

  /**
   * Take away the rows that are out of view, and make those that came into it. What stays is not touched, so that the
   * focus stays, too.
   *
   * @param {number} first
   * @param {number} last
   */
  #fit(first, last) {
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (this.#body.querySelectorAll("tr[data-place]"))) {
      const place = Number(row.dataset.place);
      if (place < first || place >= last) row.remove();
    }
    let next = /** @type {HTMLElement} */ (this.#above.nextElementSibling);
    for (let place = first; place < last; place += 1) {
      const row = this.#rows[place];
      if (Number(next.dataset.place) === place) next = /** @type {HTMLElement} */ (next.nextElementSibling);
      else next.before(this.#options.make(row, place, this.#options.key(row) === this.#current));
    }
    setHeight(this.#above, first * ROW);
    setHeight(this.#below, (this.#rows.length - last) * ROW);
  }

  // -- the focus -----------------------------------------------------------------------------------

  /** Where the focus is: the row, or what of it by its place among all that can have the focus there; null: not in a row. */
  #focusInRow() {
    const element = document.activeElement;
    const row = /** @type {HTMLElement | null} */ (this.#body.contains(element) ? (element?.closest("tr") ?? null) : null);
    return row && { key: row.dataset.key, place: [...row.querySelectorAll(FOCUSABLE)].indexOf(/** @type {Element} */ (element)) };
  }

  /** @param {{ key: string | undefined, place: number }} focused */
  #focusAgain({ key, place }) {
    const row = [...this.#body.querySelectorAll("tr")].find((one) => one.dataset.key === key);
    const target = (place >= 0 && row?.querySelectorAll(FOCUSABLE)[place]) || this.#body.querySelector('tr[tabindex="0"]');
    /** @type {HTMLElement | null} */ (target)?.focus({ preventScroll: true });
  }

  /** @param {HTMLElement} element of a row */
  #focus(element) {
    this.#body.querySelector('tr[tabindex="0"]')?.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    this.#current = element.dataset.key ?? "";
    element.focus({ preventScroll: true });
  }

  /** @param {number} place */
  #moveTo(place) {
    const top = place * ROW;
    const height = this.element.clientHeight - this.head.offsetHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW > this.element.scrollTop + height) this.element.scrollTop = top + ROW - height;
    this.#current = this.#options.key(this.#rows[place]);
    this.draw();
    /** @type {HTMLElement | null} */ (this.#body.querySelector(`tr[data-place="${place}"]`))?.focus({ preventScroll: true });
  }

  // -- pointer and keys ----------------------------------------------------------------------------

  /** @param {MouseEvent} event */
  #onClick(event) {
    const target = /** @type {Element} */ (event.target);
    const element = /** @type {HTMLElement | null} */ (target.closest("tr[data-place]"));
    if (!element) return;
    const row = this.#rows[Number(element.dataset.place)];
    if (target.closest(".row-copy")) this.#options.copy(row);
    else if (target.closest(".pick")) this.#options.pick?.(element.dataset.key ?? "");
    else if (!target.closest("a, button, input, label, summary")) {
      this.#focus(element);
      this.#options.open?.(row);
    }
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const element = /** @type {HTMLElement} */ (event.target);
    if (element.tagName !== "TR" || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = Number(element.dataset.place);
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.#rows.length - 1,
    });
    if (event.key in steps) this.#moveTo(Math.min(this.#rows.length - 1, Math.max(0, steps[event.key])));
    else if (event.key === "Enter") this.#options.open?.(this.#rows[place]);
    else if (event.key === " " && this.#options.pick) this.#options.pick(element.dataset.key ?? "");
    else if (event.key === "c") this.#options.copy(this.#rows[place]);
    else return;
    event.preventDefault();
  }
}

/** A row in the place of those that are not in the document. */
function spacer() {
  return h("tr", { class: "spacer", "aria-hidden": "true", hidden: true }, h("td", { colspan: "100" }));
}

/**
 * @param {HTMLTableRowElement} row
 * @param {number} height
 */
function setHeight(row, height) {
  row.hidden = height <= 0;
  row.cells[0].style.setProperty("height", `${height}px`);
}
