/**
 * The entries of one bucket, of keys or of objects, kept up to date while somebody looks: by a watch, or where the user
 * may not make one, by names alone.
 * Never here: what an entry is (key_index.js, object_index.js), elements.
 */

import { streamInfo } from "../nats/jetstream.js";
import { Ordered } from "../nats/ordered.js";
import { poll, SELDOM } from "./poll.js";
import { mayNotWatch, restWhileUnseen } from "./watching.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../nats/ordered.js").Delivered} Delivered */

/** Names come by so many at once. */
const NAMES_PAGE = 100_000;
/** Changes are told so often at most, in ms. */
const TOLD_MS = 250;

/**
 * Events: "change" when entries came or went or changed, "failed" with an error as its detail.
 *
 * @template E what is known of an entry
 */
export class BucketIndex extends EventTarget {
  /**
   * @param {{ link: Link, stream: string, subjects: string, headersOnly?: boolean }} source subjects: of the entries, a pattern
   * @param {AbortSignal} signal
   */
  constructor({ link, stream, subjects, headersOnly = false }, signal) {
    super();
    /** Entries that are there, by their names. @type {Map<string, E>} */
    this.entries = new Map();
    /** Names of which the stream still has a message that says that they were removed. @type {Set<string>} */
    this.removed = new Set();
    this.isComplete = false;
    /** Entries come from their names alone: one that was removed cannot be told apart at once. */
    this.isByNames = false;
    /** How often entries came or went. */
    this.version = 0;
    this.signal = signal;
    this.#link = link;
    this.#stream = stream;
    this.#subjects = subjects;
    this.#watch = new Ordered(link, {
      stream, filter: subjects, headersOnly, signal,
      take: (message) => this.take(message),
      caughtUp: () => { this.isComplete = true; this.#tell(); },
      failed: (error) => this.#failed(error),
    });
    restWhileUnseen(this.#watch, signal);
  }

  /** @type {Link} */
  #link;
  /** @type {string} */
  #stream;
  /** @type {string} */
  #subjects;
  /** @type {Ordered} */
  #watch;
  #isComparing = false;
  #isTold = false;

  // -- what a kind of bucket says of its entries ---------------------------------------------------

  /** Take a message of the watch. @param {Delivered} message */
  take(message) {
    throw new Error(`${message.subject}: a bucket takes messages as its kind has it`);
  }

  /** The name of the entry that a subject is about. @param {string} subject */
  nameOf(subject) {
    return subject;
  }

  /**
   * What is known of an entry of which the bucket told the name.
   *
   * @param {string} name
   * @param {number} messages
   * @param {E | undefined} known
   * @returns {E}
   */
  named(name, messages, known) {
    if (known === undefined) throw new Error(`${name}: ${messages} messages tell nothing of an entry`);
    return known;
  }

  /** The sequence of the message that an entry is known by. @param {E} _entry */
  sequenceOf(_entry) {
    return 0;
  }

  /** How many subjects the stream has at least, if all is there that is known. */
  get subjectsKnown() {
    return this.entries.size + this.removed.size;
  }

  // -- changes -------------------------------------------------------------------------------------

  /**
   * An entry came, or changed.
   * @param {string} name
   * @param {E} entry
   */
  put(name, entry) {
    if (!this.entries.has(name)) this.version += 1;
    this.entries.set(name, entry);
    this.removed.delete(name);
    this.#tell();
  }

  /** An entry was removed by a message. @param {string} name */
  remove(name) {
    this.removed.add(name);
    this.forget(name);
  }

  /** The bucket does not have a name any more. @param {string} name */
  forget(name) {
    if (this.entries.delete(name)) this.version += 1;
    this.#tell();
  }

  /**
   * Find entries that went without a message: they expired, or somebody purged their subjects. The names are asked for
   * only where the stream has fewer subjects than are known here.
   *
   * @param {StreamInfo} info
   */
  async compare(info) {
    if (info.state.last_seq < this.#watch.last) return this.#begin();
    const isFewer = (info.state.num_subjects ?? 0) < this.subjectsKnown;
    if (!isFewer || this.isByNames || !this.isComplete || this.#isComparing) return undefined;
    this.#isComparing = true;
    try {
      const { names, last } = await this.#names();
      for (const name of this.removed) if (!names.has(name)) this.removed.delete(name);
      for (const [name, entry] of this.entries) if (this.sequenceOf(entry) <= last && !names.has(name)) this.forget(name);
    } finally {
      this.#isComparing = false;
    }
    return undefined;
  }

  /** The stream was made anew: nothing of what is known is there. */
  #begin() {
    this.entries.clear();
    this.removed.clear();
    this.isComplete = false;
    this.version += 1;
    this.#watch.restart();
    this.#tell();
  }

  /** Tell of changes, four times a second at most. */
  #tell() {
    if (this.#isTold) return;
    this.#isTold = true;
    setTimeout(() => {
      this.#isTold = false;
      if (!this.signal.aborted) this.dispatchEvent(new Event("change"));
    }, TOLD_MS);
  }

  /** @param {unknown} error */
  fail(error) {
    this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  // -- by names ------------------------------------------------------------------------------------

  /** @param {unknown} error */
  #failed(error) {
    if (mayNotWatch(error) && !this.isByNames && !this.entries.size) this.#followNames();
    else this.fail(error);
  }

  #followNames() {
    this.isByNames = true;
    poll({
      every: SELDOM,
      signal: this.signal,
      ask: () => this.#names(),
      show: ({ names }) => this.#takeNames(names),
      failed: (error) => this.fail(error),
    });
  }

  /** @param {Map<string, number>} names with the number of their messages */
  #takeNames(names) {
    for (const name of this.entries.keys()) if (!names.has(name)) this.forget(name);
    for (const [name, messages] of names) {
      if (!this.removed.has(name)) this.put(name, this.named(name, messages, this.entries.get(name)));
    }
    this.isComplete = true;
    this.#tell();
  }

  /** All names, those of removed entries too, and the sequence up to which they are known. */
  async #names() {
    const names = /** @type {Map<string, number>} */ (new Map());
    let last = Infinity;
    for (let total = 1, offset = 0; offset < total; offset += NAMES_PAGE) {
      const info = await streamInfo(this.#link, this.#stream, { subjects_filter: this.#subjects, offset });
      for (const [subject, messages] of Object.entries(info.state.subjects ?? {})) names.set(this.nameOf(subject), messages);
      total = info.total ?? names.size;
      last = Math.min(last, info.state.last_seq);
    }
    return { names, last };
  }
}
