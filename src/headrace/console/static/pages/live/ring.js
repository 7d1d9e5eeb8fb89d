/** The last messages of a tail: at most so many, and so many bytes. */

import { text } from "../../text/live.js";

/** @typedef {import("../../nats/messages.js").Received} Received */
/** @typedef {Received & { number: number, note?: string }} TailRow a message, or a note that stands between messages */

export const MOST_ROWS = 5_000;
export const MOST_BYTES = 32 * 1_048_576;
/** What a row costs beside its payload: the object, its strings. An estimate, on the high side. */
const ROW_BYTES = 512;

export class Ring {
  /** @type {(TailRow | undefined)[]} */
  #rows;
  #first = 0;
  #count = 0;
  #bytes = 0;
  #numbers = 0;

  /**
   * @param {number} [most]
   * @param {number} [mostBytes]
   */
  constructor(most = MOST_ROWS, mostBytes = MOST_BYTES) {
    this.#rows = new Array(most);
    this.#mostBytes = mostBytes;
  }

  #mostBytes;

  get count() {
    return this.#count;
  }

  get bytes() {
    return this.#bytes;
  }

  /** The number of the last row that came; numbers go on from 1. */
  get last() {
    return this.#numbers;
  }

  /** @param {Received & { note?: string }} message */
  push(message) {
    const row = /** @type {TailRow} */ (message);
    row.number = this.#numbers += 1;
    if (this.#count === this.#rows.length) this.#drop();
    this.#rows[(this.#first + this.#count) % this.#rows.length] = row;
    this.#count += 1;
    this.#bytes += sizeOf(row);
    while (this.#bytes > this.#mostBytes && this.#count > 1) this.#drop();
  }

  /** @param {string} note */
  pushNote(note) {
    this.push({ subject: "", reply: "", headers: [], status: "", isOdd: false, data: new Uint8Array(0), size: 0, time: Date.now(), note });
  }

  /** The rows, the newest first. @returns {TailRow[]} */
  newest() {
    const rows = /** @type {TailRow[]} */ (new Array(this.#count));
    for (let place = 0; place < this.#count; place += 1) rows[place] = /** @type {TailRow} */ (this.#rows[(this.#first + this.#count - 1 - place) % this.#rows.length]);
    return rows;
  }

  /**
   * Have these rows in the place of all, the oldest first; they keep their numbers.
   * @param {TailRow[]} rows
   */
  restore(rows) {
    const numbers = this.#numbers;
    this.clear();
    for (const row of rows) {
      const { number } = row;
      this.push(row);
      row.number = number;
    }
    this.#numbers = numbers;
  }

  clear() {
    this.#rows.fill(undefined);
    this.#first = this.#count = this.#bytes = 0;
  }

  #drop() {
    this.#bytes -= sizeOf(/** @type {TailRow} */ (this.#rows[this.#first]));
    this.#rows[this.#first] = undefined;
    this.#first = (this.#first + 1) % this.#rows.length;
    this.#count -= 1;
  }
}

/** @param {TailRow} row */
function sizeOf(row) {
  return row.size + row.subject.length + row.reply.length + ROW_BYTES;
}

/**
 * What a gap in the messages is told as.
 *
 * @param {string} time how long it was
 * @param {string} lost how many messages were lost at the rate before, or "" where they came slowly
 */
export function gapNote(time, lost) {
  return lost ? text.gapSlow(time, lost) : text.gap(time);
}
