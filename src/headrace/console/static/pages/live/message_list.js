/**
 * The messages of a tail as a table, the newest first. A paint takes the rows in view, and there are so few paints a
 * second that at most 200 rows are painted. While a person reads, nothing moves.
 */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count, exactTime, time, utc } from "../../format.js";
import { text } from "../../text/live.js";
import { button } from "../../ui/blocks.js";
import { payloadLine } from "../../ui/payload.js";
import { Table } from "../../ui/table.js";
import { document } from "./export.js";

/** @typedef {import("./ring.js").TailRow} TailRow */
/** @typedef {import("./tail.js").Tail} Tail */
/** @typedef {import("../../dom/element.js").Child} Child */

/** The rows of a table that are painted at a time, at most: those in view of the largest box, and ten beyond. */
const ROWS_PAINTED = 32;
/** At most so many rows are painted in a second. */
const MOST_PAINTED = 200;
const PAINT_MS = Math.ceil((1_000 * ROWS_PAINTED) / MOST_PAINTED);

export class MessageList {
  /**
   * @param {Tail} tail
   * @param {{ open: (row: TailRow) => void, empty: () => Child, changed: () => void, signal: AbortSignal }} options
   */
  constructor(tail, { open, empty, changed, signal }) {
    this.#tail = tail;
    this.#changed = changed;
    this.#table = new Table({
      name: "live",
      label: text.tableLabel,
      columns: COLUMNS,
      key: (/** @type {TailRow} */ row) => String(row.number),
      json: document,
      open: (row) => row.note === undefined && open(row),
      empty,
    });
    this.#notice = h("div", { class: "live-held", hidden: true });
    this.element = h("div", {}, this.#notice, this.#table.element);
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  /** Messages that came and were never painted. */
  notShown = 0;
  /** A person holds the list by the button. */
  isHeldByHand = false;

  /** @type {Tail} */
  #tail;
  /** @type {Table<TailRow>} */
  #table;
  /** @type {HTMLElement} */
  #notice;
  /** @type {() => void} */
  #changed;
  #timer = 0;
  #painted = 0;
  #paintedAt = -Infinity;
  #isHeld = false;

  get isHeld() {
    return this.isHeldByHand || this.#table.isHeld;
  }

  /** Something came: paint soon. */
  wake() {
    this.#timer ||= window.setTimeout(() => this.#paint(), Math.max(0, this.#paintedAt + PAINT_MS - performance.now()));
  }

  /** Paint now, what is held too. */
  refresh() {
    this.#table.toTop();
    this.#show();
  }

  /** @param {boolean} isHeld */
  hold(isHeld) {
    this.isHeldByHand = isHeld;
    if (isHeld) this.wake();
    else this.refresh();
    this.#changed();
  }

  clear() {
    this.notShown = 0;
    this.#painted = this.#tail.ring.last;
    this.refresh();
  }

  #paint() {
    this.#timer = 0;
    if (this.isHeld) {
      this.#drawNotice();
      this.#timer = window.setTimeout(() => this.#paint(), 500); // a person may have gone back to the top meanwhile
    } else this.#show();
    if (this.#isHeld !== this.isHeld) {
      this.#isHeld = this.isHeld;
      this.#changed();
    }
  }

  #show() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const { ring } = this.#tail;
    const came = ring.last - this.#painted;
    this.notShown += Math.max(0, came - ROWS_PAINTED);
    this.#painted = ring.last;
    this.#paintedAt = performance.now();
    this.#table.setRows(ring.newest());
    this.#notice.hidden = true;
  }

  #drawNotice() {
    this.#notice.hidden = false;
    const words = text.held(count(this.#tail.ring.last - this.#painted));
    if (!this.#notice.firstChild) replace(this.#notice, h("span"), button(text.showNewest, () => this.hold(false), { kind: "small" }));
    const shown = /** @type {HTMLElement} */ (this.#notice.firstChild);
    if (shown.textContent !== words) shown.textContent = words;
  }
}

/** @type {import("../../ui/table.js").Column<TailRow>[]} */
const COLUMNS = [
  { name: "time", label: text.columns.time, cell: (row) => h("time", { class: "mono", title: `${time(row.time)} (${utc(row.time)})` }, exactTime(row.time)) },
  { name: "subject", label: text.columns.subject, cell: (row) => (row.note === undefined ? foreign(row.subject, "mono") : h("strong", { class: "live-note" }, row.note)) },
  { name: "payload", wide: true, label: text.columns.payload, cell: (row) => (row.note === undefined ? payload(row) : null) },
  { name: "size", label: text.columns.size, number: true, cell: (row) => (row.note === undefined ? bytes(row.data.length) : null) },
  { name: "headers", label: text.columns.headers, number: true, cell: (row) => row.headers.length || null },
  { name: "reply", label: text.columns.reply, hidden: true, cell: (row) => (row.reply ? foreign(row.reply, "mono") : null) },
];

/** @param {TailRow} row */
function payload(row) {
  return row.status ? h("span", {}, h("span", { class: "tag" }, foreign(row.status)), " ", row.data.length > 0 && payloadLine(row.data)) : payloadLine(row.data);
}
