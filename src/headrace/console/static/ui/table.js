/**
 * A table of any length: it sorts, filters, hides columns, and copies rows.
 * Never here: where rows come from; a page gives them, all or the part it has, as often as it likes. Which of them are
 * in the document (table_window.js), what the address keeps (table_address.js).
 */

import { h, replace } from "../dom/element.js";
import { count } from "../format.js";
import { hiddenColumns, hideColumns } from "../preferences.js";
import { text } from "../text/common.js";
import { copy } from "./blocks.js";
import { filterInput } from "./fields.js";
import { icon } from "./icons.js";
import { menu } from "./menu.js";
import { inOrder } from "./table_order.js";
import { RowWindow } from "./table_window.js";

/** @template R @typedef {import("./table_options.js").Column<R>} Column */
/** @template R @typedef {import("./table_options.js").TableOptions<R>} TableOptions */

/** The cell at the end of each row, which is copied: making it takes as long as all others of a row. */
const COPY_CELL = h(
  "td",
  { class: "at-end" },
  h("button", { class: "button quiet small row-copy", type: "button", title: text.copyRow, "aria-label": text.copyRow }, icon("copy", 12)),
);

/** @template R */
export class Table {
  /** @param {TableOptions<R>} options */
  constructor(options) {
    this.#options = options;
    this.#hidden = new Set(hiddenColumns(options.name) ?? options.columns.filter((column) => column.hidden).map((column) => column.name));
    [this.#sorted, this.#direction] = options.sorted ?? ["", "up"];
    this.#filter = (options.filter ?? "").trim().toLowerCase();
    this.#window = new RowWindow({
      label: options.label, key: options.key, open: options.open, seen: options.seen,
      make: (row, place, isCurrent) => this.#row(row, place, isCurrent),
      copy: (row) => void copy(JSON.stringify(options.json ? options.json(row) : row, null, 2)),
      pick: options.pick ? (key) => this.#pick(key) : undefined,
    });
    this.element = h("div", { class: "table-frame" }, this.#tools(), this.#window.element, this.#nothing, this.#foot());
    this.#drawHead();
  }

  /** @type {TableOptions<R>} */
  #options;
  /** @type {RowWindow<R>} */
  #window;
  /** @type {Set<string>} */
  #hidden;
  /** Those that are not hidden. @type {Column<R>[]} */
  #columns = [];
  #sorted = "";
  /** @type {"up" | "down"} */
  #direction = "up";
  #filter = "";
  /** @type {R[]} */
  #rows = [];
  /** @type {number | null} */
  #total = null;
  /** @type {Set<string>} */
  #picks = new Set();
  #nothing = h("div", { hidden: true });
  #summary = h("span");

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
    this.#window.draw();
  }

  /** True while a person reads in the middle: scrolled down, or with the focus on a row. */
  get isHeld() {
    return this.#window.isHeld;
  }

  /** Back to the first row, and the focus with it. */
  toTop() {
    this.#window.toTop();
  }

  /** What the rows are filtered by now, in lower case; "" where they are not. */
  get filter() {
    return this.#filter;
  }

  // -- picked rows ---------------------------------------------------------------------------------

  get picks() {
    return this.#rows.filter((row) => this.#picks.has(this.#options.key(row)));
  }

  unpick() {
    this.#picks.clear();
    this.#window.draw();
    this.#options.picked?.([]);
  }

  /** @param {string} key */
  #pick(key) {
    if (this.#picks.has(key)) this.#picks.delete(key);
    else this.#picks.add(key);
    this.#window.draw();
    this.#options.picked?.(this.picks);
  }

  // -- filter, order and columns -------------------------------------------------------------------

  #tools() {
    const { words, tools = [], plain } = this.#options;
    if (plain || (!words && !tools.length)) return null;
    return h("div", { class: "table-tools" }, words && filterInput(text.filter, (typed) => this.#filterBy(typed), this.#options.filter), tools);
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

  /** @param {string} typed */
  #filterBy(typed) {
    this.#filter = typed.trim().toLowerCase();
    this.#window.scrollToTop();
    this.#arrange();
    this.#options.filtered?.(typed);
  }

  /** @param {string} name */
  #toggle(name) {
    if (this.#hidden.has(name)) this.#hidden.delete(name);
    else if (this.#columns.length > 1) this.#hidden.add(name);
    hideColumns(this.#options.name, [...this.#hidden]);
    this.#drawHead();
    this.#window.draw();
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

  #arrange() {
    const { words, columns, sort } = this.#options;
    let rows = this.#rows;
    if (this.#filter && words) rows = rows.filter((row) => words(row).toLowerCase().includes(this.#filter));
    const value = columns.find((column) => column.name === this.#sorted)?.sort;
    if (value && !sort) rows = inOrder(rows, value, this.#direction);
    const all = this.#total ?? this.#rows.length;
    this.#summary.textContent = rows.length === all ? text.rows(count(all)) : text.rowsOf(count(rows.length), count(all));
    this.#nothing.hidden = rows.length > 0;
    if (!rows.length) replace(this.#nothing, this.#rows.length && this.#filter ? h("div", { class: "empty" }, text.filterMatchesNothing(this.#filter)) : this.#options.empty?.());
    this.#window.show(rows, this.#total ?? rows.length);
  }

  // -- drawing -------------------------------------------------------------------------------------

  #drawHead() {
    this.#columns = this.#options.columns.filter((column) => !this.#hidden.has(column.name));
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
    replace(this.#window.head, h("tr", {}, pick, cells, h("th", { class: "at-end" }, h("span", { class: "hidden-visually" }, text.copyRow))));
  }

  /**
   * @param {R} row
   * @param {number} place
   * @param {boolean} isCurrent
   */
  #row(row, place, isCurrent) {
    const { key: keyOf, pick } = this.#options;
    const key = keyOf(row);
    return h(
      "tr",
      {
        "data-key": key, "data-place": place, "aria-rowindex": place + 2, tabindex: isCurrent ? "0" : "-1",
        "aria-selected": pick ? String(this.#picks.has(key)) : null,
      },
      pick && h("td", { class: "pick" }, h("input", { type: "checkbox", "aria-label": text.pick, checked: this.#picks.has(key) })),
      this.#columns.map((column) => h("td", { class: classOf(column) }, column.cell(row))),
      COPY_CELL.cloneNode(true),
    );
  }
}

/** @param {{ number?: boolean, wide?: boolean }} column */
function classOf({ number, wide }) {
  return number ? "number" : wide ? "wide" : "";
}
