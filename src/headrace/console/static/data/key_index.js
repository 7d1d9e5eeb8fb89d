/**
 * The keys of one bucket with their revisions, sizes and times, kept up to date while somebody looks: by a watch, or
 * where the user may not make one, by names alone.
 * Never here: elements.
 */

import { streamInfo } from "../nats/jetstream.js";
import { Ordered } from "../nats/ordered.js";
import { poll, SELDOM } from "./poll.js";
import { mayNotWatch, restWhileUnseen } from "./watching.js";

/** @typedef {import("../nats/keyvalue.js").Bucket} Bucket */
/** @typedef {import("../nats/keyvalue.js").Operation} Operation */
/** @typedef {{ key: string, revision: number, time: number, size: number, operation: Operation, kept?: number }} KeyFacts revision 0: not known */

/** So many of the last changes are kept. */
const MOST_CHANGES = 500;
/** Names come by so many at once. */
const NAMES_PAGE = 100_000;

/** Events: "change" when keys came or went or changed, "failed" with an error as its detail. */
export class KeyIndex extends EventTarget {
  /**
   * @param {Bucket} bucket
   * @param {AbortSignal} signal
   */
  constructor(bucket, signal) {
    super();
    this.bucket = bucket;
    /** Keys that have a value. @type {Map<string, KeyFacts>} */
    this.keys = new Map();
    /** The newest first; from when on it was looked. @type {KeyFacts[]} */
    this.changes = [];
    this.isComplete = false;
    /** The keys come from their names alone: a removed one cannot be told apart. */
    this.isByNames = false;
    /** How often keys came or went. */
    this.version = 0;
    this.#signal = signal;
    this.#watch = new Ordered(bucket.link, {
      stream: bucket.config.name, filter: `${bucket.stored}>`, headersOnly: true, signal,
      take: (message) => this.#take(bucket.entry(message)),
      caughtUp: () => { this.isComplete = true; this.#tell(); },
      failed: (error) => this.#failed(error),
    });
    restWhileUnseen(this.#watch, signal);
  }

  /** @type {AbortSignal} */
  #signal;
  /** @type {Ordered} */
  #watch;
  /** Keys of which the stream still has a message, but no value. @type {Set<string>} */
  #removed = new Set();
  #isComparing = false;
  #isTold = false;

  /** @param {import("../nats/keyvalue.js").Entry} entry */
  #take({ key, revision, time, size, operation }) {
    const facts = { key, revision, time, size, operation };
    if (operation === "PUT") this.#removed.delete(key);
    else this.#removed.add(key);
    if (operation === "PUT") {
      if (!this.keys.has(key)) this.version += 1;
      this.keys.set(key, facts);
    } else if (this.keys.delete(key)) this.version += 1;
    if (this.isComplete) {
      this.changes.unshift(facts);
      if (this.changes.length > MOST_CHANGES) this.changes.length = MOST_CHANGES;
    }
    this.#tell();
  }

  /**
   * Find keys that went without a message: they expired, or somebody purged their subjects. Their names are asked for
   * only where the stream has fewer subjects than are known here.
   *
   * @param {import("../nats/jetstream.js").StreamInfo} info
   */
  async compare(info) {
    if (info.state.last_seq < this.#watch.last) return this.#begin();
    const isFewer = (info.state.num_subjects ?? 0) < this.keys.size + this.#removed.size;
    if (!isFewer || this.isByNames || !this.isComplete || this.#isComparing) return undefined;
    this.#isComparing = true;
    try {
      const { keys, last } = await this.#names();
      for (const key of this.#removed) if (!keys.has(key)) this.#removed.delete(key);
      for (const [key, { revision }] of this.keys) if (revision <= last && !keys.has(key)) this.#drop(key);
    } finally {
      this.#isComparing = false;
    }
    return undefined;
  }

  /** The stream was made anew: nothing of what is known is there. */
  #begin() {
    this.keys.clear();
    this.#removed.clear();
    this.isComplete = false;
    this.version += 1;
    this.#watch.restart();
    this.#tell();
  }

  /** @param {string} key */
  #drop(key) {
    this.keys.delete(key);
    this.version += 1;
    this.#tell();
  }

  /** Tell of changes, four times a second at most. */
  #tell() {
    if (this.#isTold) return;
    this.#isTold = true;
    setTimeout(() => {
      this.#isTold = false;
      if (!this.#signal.aborted) this.dispatchEvent(new Event("change"));
    }, 250);
  }

  /** @param {unknown} error */
  #failed(error) {
    if (mayNotWatch(error) && !this.isByNames && !this.keys.size) this.#followNames();
    else this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  #followNames() {
    this.isByNames = true;
    poll({
      every: SELDOM,
      signal: this.#signal,
      ask: () => this.#names(),
      show: ({ keys }) => {
        if (keys.size !== this.keys.size || [...keys.keys()].some((key) => !this.keys.has(key))) this.version += 1;
        this.keys = keys;
        this.isComplete = true;
        this.dispatchEvent(new Event("change"));
      },
      failed: (error) => this.dispatchEvent(new CustomEvent("failed", { detail: error })),
    });
  }

  /** The keys by their names, and the sequence up to which they are known. */
  async #names() {
    const { stored, link, config } = this.bucket;
    const keys = /** @type {Map<string, KeyFacts>} */ (new Map());
    let last = Infinity;
    for (let total = 1, offset = 0; offset < total; offset += NAMES_PAGE) {
      const info = await streamInfo(link, config.name, { subjects_filter: `${stored}>`, offset });
      for (const [subject, kept] of Object.entries(info.state.subjects ?? {})) {
        const key = subject.slice(stored.length);
        keys.set(key, { key, revision: 0, time: 0, size: 0, operation: "PUT", kept });
      }
      total = info.total ?? keys.size;
      last = Math.min(last, info.state.last_seq);
    }
    return { keys, last };
  }
}
