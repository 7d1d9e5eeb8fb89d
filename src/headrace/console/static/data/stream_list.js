/**
 * The streams of an account with their figures: all of them where they are few, else the names, and figures of those
 * that are in view only.
 */

import { PAGE, streamInfo, streamNames, streams } from "../nats/jetstream.js";
import { Refused } from "../nats/errors.js";
import { Rates } from "./series.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {{ name: string, info: StreamInfo | null, rate: number | null, asked: number }} StreamRow rate: messages a second; asked: when, in ms */

/** Of so many streams all figures are asked for each time. */
export const FEW = 1_000;
/** Figures of rows in view are asked for again when they are older, in ms. */
const FRESH_MS = 5_000;
/** So many infos of rows in view are under way at once. */
const AT_ONCE = 8;
/** What came is shown so often at most while more is to come, in ms. */
const SHOWN_MS = 250;

export class StreamList {
  /** @param {Link} link */
  constructor(link) {
    this.#link = link;
  }

  /** @type {StreamRow[]} */
  rows = [];
  #rates = new Rates();
  /** @type {Map<string, StreamRow>} */
  #byName = new Map();
  /** @type {Link} */
  #link;
  #isAsking = false;
  /** @type {StreamRow[]} */
  #wanted = [];

  get isLarge() {
    return this.rows.length > FEW;
  }

  /** Ask for the names, and for the figures where there are few. Raises: as Link.askJson. */
  async refresh() {
    const first = await streams(this.#link);
    if (first.total <= PAGE) this.#takeInfos(first.streams ?? [], true);
    else if (first.total <= FEW) await this.#pages(first);
    else {
      const names = await streamNames(this.#link);
      const known = this.#byName;
      this.#keep(names.map((name) => known.get(name) ?? { name, info: null, rate: null, asked: 0 }));
      this.#takeInfos(first.streams ?? [], false);
    }
    return this.rows;
  }

  /**
   * The figures of all streams, page after page.
   * @param {(done: number, total: number) => void} progress
   * @param {AbortSignal} signal
   */
  async loadAll(progress, signal) {
    for (let offset = 0, total = 1; offset < total && !signal.aborted; ) {
      const answer = await streams(this.#link, { offset });
      if (!answer.streams?.length) break;
      this.#takeInfos(answer.streams, false);
      offset += answer.streams.length;
      total = answer.total;
      progress(offset, total);
    }
  }

  /**
   * Ask for the figures of rows that are in view, if they are old; `changed` is called when they came, or some of them
   * after a while. Rows that went out of view meanwhile are not asked for.
   *
   * @param {StreamRow[]} rows
   * @param {() => void} changed
   * @param {AbortSignal} signal
   */
  async seen(rows, changed, signal) {
    this.#wanted = rows;
    if (this.#isAsking) return;
    this.#isAsking = true;
    let shownAt = Date.now();
    let isShown = true;
    try {
      for (;;) {
        const due = this.#wanted.filter((row) => Date.now() - row.asked > FRESH_MS).slice(0, AT_ONCE);
        if (signal.aborted) return;
        if (!isShown && (!due.length || Date.now() - shownAt > SHOWN_MS)) {
          changed();
          [shownAt, isShown] = [Date.now(), true];
        }
        if (!due.length) return;
        for (const row of due) row.asked = Date.now();
        const infos = await Promise.all(due.map((row) => this.#infoOf(row.name)));
        if (signal.aborted) return;
        this.#takeInfos(infos.filter((info) => info !== null), false);
        isShown = false;
      }
    } finally {
      this.#isAsking = false;
    }
  }

  /**
   * A stream that is gone by now has no figures; the next refresh leaves it out.
   * @param {string} name
   */
  async #infoOf(name) {
    try {
      return await streamInfo(this.#link, name);
    } catch (error) {
      if (error instanceof Refused) return null;
      throw error;
    }
  }

  /** @param {{ streams: StreamInfo[] | null, total: number }} first */
  async #pages(first) {
    const infos = [...(first.streams ?? [])];
    while (infos.length < first.total) {
      const answer = await streams(this.#link, { offset: infos.length });
      if (!answer.streams?.length) break;
      infos.push(...answer.streams);
    }
    this.#takeInfos(infos, true);
  }

  /**
   * @param {StreamInfo[]} infos
   * @param {boolean} areAll
   */
  #takeInfos(infos, areAll) {
    const now = Date.now();
    const rows = infos.map((info) => {
      const name = info.config.name;
      const row = this.#byName.get(name) ?? { name, info: null, rate: null, asked: 0 };
      row.rate = this.#rates.of(name, now / 1000, { last: info.state.last_seq })?.last ?? row.rate;
      row.info = info;
      row.asked = now;
      return row;
    });
    if (areAll) this.#keep(rows);
  }

  /** @param {StreamRow[]} rows */
  #keep(rows) {
    this.rows = rows;
    this.#byName = new Map(rows.map((row) => [row.name, row]));
    this.#rates.keep(new Set(this.#byName.keys()));
  }
}
