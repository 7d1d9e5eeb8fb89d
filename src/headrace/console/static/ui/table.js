/**
 * A table of any length: it sorts, filters, hides columns, and has only the rows in the document that can be seen.
 * Never here: where rows come from; a page gives them, all or the part it has, as often as it likes.
 */

import { h, replace } from "../dom/element.js";
import { count } from "../format.js";
import { hiddenColumns, hideColumns } from "../preferences.js";
import { text } from "../text/common.js";
import { copy } from "./blocks.js";
import { filterInput } from "./fields.js";
import { icon } from "./icons.js";
import { menu } from "./menu.js";

/** @typedef {import("../dom/element.js").Child} Child */

/**
 * @template R
 * @typedef {object} Column
 * @property {string} name unique in the table; kept where a person hides it
 * @property {string} label
 * @property {(row: R) => Child} cell
 * @property {(row: R) => string | number | null | undefined} [sort] what the column is sorted by; without it, it is not
 * @property {boolean} [number] aligned to the right
 * @property {boolean} [wide] takes the space that others leave, as a payload does
 * @property {boolean} [hidden] hidden until a person shows it
 * @property {string} [hint] shown where one hovers over the heading
 */

/**
 * @template R
 * @typedef {object} TableOptions
 * @property {string} name
 * @property {string} label of the table, for who does not see it
 * @property {Column<R>[]} columns
 * @property {(row: R) => string} key
 * @property {(row: R) => string} [words] what a filter looks in; without it there is no filter
 * @property {(row: R) => void} [open] a row was chosen
 * @property {(row: R) => unknown} [json] what "copy as JSON" gives; without it the row itself
 * @property {[string, "up" | "down"]} [sorted] the column and its direction at first
 * @property {(column: string, direction: "up" | "down") => void} [sort] sorts at the server, in the place of here
 * @property {(column: string, direction: "up" | "down") => void} [arranged] told when a person sorts by another column; the table sorts
 *   the rows that it has all the same
 * @property {string} [filter] what is filtered by at first
 * @property {(rows: R[]) => void} [seen] the rows that are in view now, after the view changed
 * @property {boolean} [pick] rows can be picked
 * @property {(rows: R[]) => void} [picked] other rows are picked
 * @property {Child[]} [tools] beside the filter
 * @property {Child[]} [foot] at the end of the line below
 * @property {() => Child} [empty] what stands where there is no row
 * @property {boolean} [plain] no tools, no foot: a short list on a page with other things
 */

/** The cell at the end of each row, which is copied: making it takes as long as all others of a row. */
const COPY_CELL = h(
  "td",
  { class: "at-end" },
  h("button", { class: "button quiet small row-copy", type: "button", title: text.copyRow, "aria-label": text.copyRow }, icon("copy", 12)),
);
/** The height of a row, as in styles/tables.css: 2.25rem. */
const ROW = 36;
/** So many rows are in the document above and below those that are in view. */
const BEYOND = 10;
const FOCUSABLE = "a, button, input, select, summary";

/** @template R */
export class Table {
  /** @param {TableOptions<R>} options */
  constructor(options) {
    this.#options = options;
    this.#hidden = new Set(hiddenColumns(options.name) ?? options.columns.filter((column) => column.hidden).map((column) => column.name));
    [this.#sorted, this.#direction] = options.sorted ?? ["", "up"];
    this.#filter = (options.filter ?? "").trim().toLowerCase();
    this.#body = h("tbody");
    this.#head = h("thead");
    this.#table = h("table", { class: "table windowed", "aria-label": options.label }, this.#head, this.#body);
    this.#box = h("div", { class: "table-box windowed", tabindex: "-1" }, this.#table);
    this.#nothing = h("div", { hidden: true });
    this.#summary = h("span");
    this.element = h("div", { class: "table-frame" }, this.#tools(), this.#box, this.#nothing, this.#foot());
    this.#box.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.#body.addEventListener("click", (event) => this.#onClick(event));
    this.#body.addEventListener("keydown", (event) => this.#onKey(event));
    this.#body.addEventListener("pointerdown", () => this.#holdStill());
    new ResizeObserver(() => this.#onScroll()).observe(this.#box);
    this.#drawHead();
  }

  /** @type {TableOptions<R>} */
  #options;
  /** @type {Set<string>} */
  #hidden;
  #sorted = "";
  /** @type {"up" | "down"} */
  #direction = "up";
  #filter = "";
  /** @type {R[]} */
  #rows = [];
  /** @type {R[]} */
  #shown = [];
  /** @type {number | null} */
  #total = null;
  #first = -1;
  #last = -1;
  #current = "";
  /** @type {Set<string>} */
  #picks = new Set();
  #isPressed = false;
  #isDue = false;
  #frame = 0;
  #above = spacer();
  #below = spacer();
  /** @type {HTMLTableSectionElement} */
  #body;
  /** @type {HTMLTableSectionElement} */
  #head;
  /** @type {HTMLTableElement} */
  #table;
  /** @type {HTMLElement} */
  #box;
  /** @type {HTMLElement} */
  #nothing;
  /** @type {HTMLElement} */
  #summary;

  /**
   * Show these rows. The place that is in view, the row with the focus and what is picked stay.
   *
   * @param {R[]} rows
   * @param {number} [total] of all, where these are some of them
   */
  setRows(rows, total) {
    this.#rows = rows;
    this.#total = total ?? null;
    const keys = new Set(rows.map(this.#options.key));
    for (const pick of this.#picks) if (!keys.has(pick)) this.#picks.delete(pick);
    this.#arrange();
  }

  /** Draw the rows in view again, after they were changed in place. */
  redraw() {
    this.#draw(true);
  }

  /** @param {string} filter */
  setFilter(filter) {
    this.#filter = filter.trim().toLowerCase();
    this.#box.scrollTop = 0;
    this.#arrange();
  }

  /** True while a person reads in the middle: scrolled down, or with the focus on a row. */
  get isHeld() {
    return this.#box.scrollTop > 0 || (document.activeElement !== document.body && this.#body.contains(document.activeElement));
  }

  /** Back to the first row, and the focus with it. */
  toTop() {
    const hadFocus = this.#body.contains(document.activeElement);
    this.#current = "";
    this.#box.scrollTop = 0;
    if (hadFocus) this.#box.focus({ preventScroll: true });
    this.#draw(true);
  }

  /** What the rows are filtered by now, in lower case; "" where they are not. */
  get filter() {
    return this.#filter;
  }

  get picks() {
    return this.#rows.filter((row) => this.#picks.has(this.#options.key(row)));
  }

  unpick() {
    this.#picks.clear();
    this.#draw(true);
    this.#options.picked?.([]);
  }

  get #columns() {
    return this.#options.columns.filter((column) => !this.#hidden.has(column.name));
  }

  #tools() {
    const { words, tools = [], plain } = this.#options;
    if (plain || (!words && !tools.length)) return null;
    return h("div", { class: "table-tools" }, words && filterInput(text.filter, (typed) => this.setFilter(typed), this.#options.filter), tools);
  }

  #foot() {
    if (this.#options.plain) return null;
    const columns = menu(text.columns, () =>
      this.#options.columns.map((column) =>
        h(
          "label",
          { class: "check" },
          h("input", { type: "checkbox", checked: !this.#hidden.has(column.name), onchange: () => this.#toggle(column.name) }),
          column.label,
        ),
      ),
    { icon: "columns" });
    return h("div", { class: "table-foot" }, this.#summary, h("div", { class: "end" }, this.#options.foot ?? [], columns));
  }

  /** @param {string} name */
  #toggle(name) {
    if (this.#hidden.has(name)) this.#hidden.delete(name);
    else if (this.#columns.length > 1) this.#hidden.add(name);
    hideColumns(this.#options.name, [...this.#hidden]);
    this.#drawHead();
    this.#draw(true);
  }

  /** @param {Column<R>} column */
  #sortBy(column) {
    const { name, number } = column;
    if (this.#sorted === name) this.#direction = this.#direction === "up" ? "down" : "up";
    else [this.#sorted, this.#direction] = [name, number ? "down" : "up"];
    this.#options.sort?.(this.#sorted, this.#direction);
    this.#options.arranged?.(this.#sorted, this.#direction);
    this.#drawHead();
    this.#arrange();
  }

  #drawHead() {
    const cells = this.#columns.map((column) => {
      const isSorted = this.#sorted === column.name;
      const order = isSorted ? (this.#direction === "up" ? "ascending" : "descending") : null;
      return h(
        "th",
        { scope: "col", class: classOf(column), "aria-sort": order, title: column.hint },
        column.sort
          ? h("button", { type: "button", onclick: () => this.#sortBy(column) }, column.label, isSorted && icon(this.#direction === "up" ? "up" : "down", 12))
          : column.label,
      );
    });
    const pick = this.#options.pick && h("th", { class: "pick" }, h("span", { class: "hidden-visually" }, text.pick));
    replace(this.#head, h("tr", {}, pick, cells, h("th", { class: "at-end" }, h("span", { class: "hidden-visually" }, text.copyRow))));
  }

  #arrange() {
    const { words, columns, sort } = this.#options;
    let rows = this.#rows;
    if (this.#filter && words) rows = rows.filter((row) => words(row).toLowerCase().includes(this.#filter));
    const value = columns.find((column) => column.name === this.#sorted)?.sort;
    if (value && !sort) rows = sorted(rows, value, this.#direction === "up" ? 1 : -1);
    this.#shown = rows;
    this.#table.setAttribute("aria-rowcount", String((this.#total ?? rows.length) + 1));
    this.#summary.textContent = this.#words();
    const isEmpty = rows.length === 0;
    this.#box.hidden = isEmpty;
    this.#nothing.hidden = !isEmpty;
    if (isEmpty) replace(this.#nothing, this.#rows.length && this.#filter ? h("div", { class: "empty" }, text.filterMatchesNothing(this.#filter)) : this.#options.empty?.());
    this.#draw(true);
  }

  #words() {
    const all = this.#total ?? this.#rows.length;
    return this.#shown.length === all ? text.rows(count(all)) : text.rowsOf(count(this.#shown.length), count(all));
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
        if (this.#isDue) this.#draw(true);
      }, 0);
    };
    for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, release, true);
  }

  /**
   * Draw the rows that are in view, and a few beyond; those that are there already stay.
   * @param {boolean} anew all of them, since their cells may have changed
   */
  #draw(anew) {
    if (this.#isPressed) {
      this.#isDue = true;
      return;
    }
    this.#isDue = false;
    const inView = Math.ceil((this.#box.clientHeight || 600) / ROW);
    const top = Math.floor(this.#box.scrollTop / ROW);
    const first = Math.max(0, top - BEYOND);
    const last = Math.min(this.#shown.length, top + inView + BEYOND);
    if (!anew && first === this.#first && last === this.#last) return;
    [this.#first, this.#last] = [first, last];
    const focused = this.#focusInRow();
    if (anew) this.#body.replaceChildren(this.#above, this.#below);
    this.#fit(first, last);
    if (!this.#body.querySelector('tr[tabindex="0"]')) this.#body.querySelector("tr[data-key]")?.setAttribute("tabindex", "0");
    if (focused) this.#focusAgain(focused);
    this.#options.seen?.(this.#shown.slice(first, last));
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
    const columns = this.#columns;
    let next = /** @type {HTMLElement} */ (this.#above.nextElementSibling);
    for (let place = first; place < last; place += 1) {
      if (Number(next.dataset.place) === place) next = /** @type {HTMLElement} */ (next.nextElementSibling);
      else next.before(this.#row(this.#shown[place], place, columns));
    }
    setHeight(this.#above, first * ROW);
    setHeight(this.#below, (this.#shown.length - last) * ROW);
  }

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

  /**
   * @param {R} row
   * @param {number} place
   * @param {Column<R>[]} columns
   */
  #row(row, place, columns) {
    const key = this.#options.key(row);
    return h(
      "tr",
      {
        "data-key": key, "data-place": place, "aria-rowindex": place + 2, tabindex: key === this.#current ? "0" : "-1",
        "aria-selected": this.#options.pick ? String(this.#picks.has(key)) : null,
      },
      this.#options.pick && h("td", { class: "pick" }, h("input", { type: "checkbox", "aria-label": text.pick, checked: this.#picks.has(key) })),
      columns.map((column) => h("td", { class: classOf(column) }, column.cell(row))),
      COPY_CELL.cloneNode(true),
    );
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const target = /** @type {Element} */ (event.target);
    const element = /** @type {HTMLElement | null} */ (target.closest("tr[data-place]"));
    if (!element) return;
    const row = this.#shown[Number(element.dataset.place)];
    if (target.closest(".row-copy")) void copy(this.#json(row));
    else if (target.closest(".pick")) this.#pick(element.dataset.key ?? "");
    else if (!target.closest("a, button, input, label, summary")) this.#choose(element, row);
  }

  /** @param {R} row */
  #json(row) {
    return JSON.stringify(this.#options.json ? this.#options.json(row) : row, null, 2);
  }

  /** @param {string} key */
  #pick(key) {
    if (this.#picks.has(key)) this.#picks.delete(key);
    else this.#picks.add(key);
    this.#draw(true);
    this.#options.picked?.(this.picks);
  }

  /**
   * @param {HTMLElement} element
   * @param {R} row
   */
  #choose(element, row) {
    this.#focus(element);
    this.#options.open?.(row);
  }

  /** @param {HTMLElement} element */
  #focus(element) {
    this.#body.querySelector('tr[tabindex="0"]')?.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    this.#current = element.dataset.key ?? "";
    element.focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const element = /** @type {HTMLElement} */ (event.target);
    if (element.tagName !== "TR" || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = Number(element.dataset.place);
    const page = Math.max(1, Math.floor(this.#box.clientHeight / ROW) - 2);
    const steps = /** @type {Record<string, number>} */ ({
      ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.#shown.length - 1,
    });
    if (event.key in steps) this.#moveTo(Math.min(this.#shown.length - 1, Math.max(0, steps[event.key])));
    else if (event.key === "Enter") this.#options.open?.(this.#shown[place]);
    else if (event.key === " " && this.#options.pick) this.#pick(element.dataset.key ?? "");
    else if (event.key === "c") void copy(this.#json(this.#shown[place]));
    else return;
    event.preventDefault();
  }

  /** @param {number} place */
  #moveTo(place) {
    const top = place * ROW;
    const head = this.#head.offsetHeight;
    const height = this.#box.clientHeight - head;
    if (top < this.#box.scrollTop) this.#box.scrollTop = top;
    else if (top + ROW > this.#box.scrollTop + height) this.#box.scrollTop = top + ROW - height;
    this.#current = this.#options.key(this.#shown[place]);
    this.#draw(true);
    /** @type {HTMLElement | null} */ (this.#body.querySelector(`tr[data-place="${place}"]`))?.focus({ preventScroll: true });
  }
}

/**
 * Rows by a value; those without one are last either way.
 *
 * @template R
 * @param {R[]} rows
 * @param {(row: R) => string | number | null | undefined} value
 * @param {1 | -1} sign
 */
function sorted(rows, value, sign) {
  return rows
    .map((row) => /** @type {[R, string | number | null | undefined]} */ ([row, comparable(value(row))]))
    .sort(([, a], [, b]) => {
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return a < b ? -sign : sign;
    })
    .map(([row]) => row);
}

/** @param {{ number?: boolean, wide?: boolean }} column */
function classOf({ number, wide }) {
  return number ? "number" : wide ? "wide" : "";
}

/**
 * A value that `<` puts in order: letters of both cases together, numbers in a text by their size. `Intl.Collator`
 * would do it, and takes a fifth of a second for 10,000 names.
 *
 * @param {string | number | null | undefined} value
 */
function comparable(value) {
  return typeof value === "string" ? value.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(20, "0")) : value;
}

/** A row in the place of those that are not in the document. */
function spacer() {
  return h("tr", { class: "spacer", "aria-hidden": "true", hidden: true }, h("td", { colspan: "100" }));
}

/**
 * @param {HTMLTableRowElement} spacer
 * @param {number} height
 */
function setHeight(spacer, height) {
  spacer.hidden = height <= 0;
  spacer.cells[0].style.setProperty("height", `${height}px`);
}
