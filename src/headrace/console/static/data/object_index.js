/**
 * The objects of one bucket with their facts, kept up to date while somebody looks: by a watch, or where the user may
 * not make one, by their names, with the facts of those in view.
 * Never here: elements.
 */

import { decodedName, factsOf } from "../nats/object_facts.js";
import { streamInfo } from "../nats/jetstream.js";
import { Ordered } from "../nats/ordered.js";
import { poll, SELDOM } from "./poll.js";
import { mayNotWatch, restWhileUnseen } from "./watching.js";

/** @typedef {import("../nats/objects.js").Store} Store */
/** @typedef {import("../nats/object_facts.js").ObjectFacts} ObjectFacts */
/** @typedef {{ name: string, facts: ObjectFacts | null }} ObjectRow facts null: not asked for yet */

/** Names come by so many at once. */
const NAMES_PAGE = 100_000;

/** Events: "change" when objects came or went or changed, "failed" with an error as its detail. */
export class ObjectIndex extends EventTarget {
  /**
   * @param {Store} store
   * @param {AbortSignal} signal
   */
  constructor(store, signal) {
    super();
    this.store = store;
    /** Objects that are there. @type {Map<string, ObjectRow>} */
    this.objects = new Map();
    this.isComplete = false;
    /** Objects come from their names alone: a removed one is known when it is in view. */
    this.isByNames = false;
    this.#signal = signal;
    this.#watch = new Ordered(store.link, {
      stream: store.config.name, filter: store.metaSubjects, signal,
      take: (message) => this.#take(factsOf(message)),
      caughtUp: () => { this.isComplete = true; this.#tell(); },
      failed: (error) => this.#failed(error),
    });
    restWhileUnseen(this.#watch, signal);
  }

  /** @type {AbortSignal} */
  #signal;
  /** @type {Ordered} */
  #watch;
  #isTold = false;
  /** Names that the server says were removed. @type {Set<string>} */
  #removed = new Set();
  #isAsking = false;
  #isComparing = false;

  /**
   * Ask for the facts of these objects, if they are not known: one after the other.
   * @param {ObjectRow[]} rows
   */
  async learn(rows) {
    if (!this.isByNames || this.#isAsking) return;
    this.#isAsking = true;
    try {
      for (const { name, facts } of rows) {
        if (facts || this.#removed.has(name) || this.#signal.aborted) continue;
        const found = await this.store.facts(name);
        if (found) this.#take(found);
      }
    } catch (error) {
      this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    } finally {
      this.#isAsking = false;
    }
  }

  /**
   * Find objects that went without a message: they expired, or were renamed by a client that purged the old name. The
   * names are asked for only where the stream has fewer subjects than are known here.
   *
   * @param {import("../nats/jetstream.js").StreamInfo} info
   */
  async compare(info) {
    if (info.state.last_seq < this.#watch.last) return this.#begin();
    const withChunks = [...this.objects.values()].filter((row) => row.facts?.chunks).length;
    const isFewer = (info.state.num_subjects ?? 0) < this.objects.size + this.#removed.size + withChunks;
    if (!isFewer || this.isByNames || !this.isComplete || this.#isComparing) return undefined;
    this.#isComparing = true;
    try {
      const { names, last } = await this.#names();
      for (const name of this.#removed) if (!names.has(name)) this.#removed.delete(name);
      for (const [name, { facts }] of this.objects) if ((facts?.sequence ?? 0) <= last && !names.has(name)) this.forget(name);
    } finally {
      this.#isComparing = false;
    }
    return undefined;
  }

  /** The stream was made anew: nothing of what is known is there. */
  #begin() {
    this.objects.clear();
    this.#removed.clear();
    this.isComplete = false;
    this.#watch.restart();
    this.#tell();
  }

  /** Take an object off the list, whose name the bucket does not have any more. @param {string} name */
  forget(name) {
    this.objects.delete(name);
    this.#tell();
  }

  /** @param {ObjectFacts} facts */
  #take(facts) {
    if (facts.isDeleted) {
      this.objects.delete(facts.name);
      this.#removed.add(facts.name);
    } else {
      this.objects.set(facts.name, { name: facts.name, facts });
      this.#removed.delete(facts.name);
    }
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
    if (mayNotWatch(error) && !this.isByNames && !this.objects.size) this.#followNames();
    else this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  #followNames() {
    this.isByNames = true;
    poll({
      every: SELDOM,
      signal: this.#signal,
      ask: () => this.#names(),
      show: ({ names }) => {
        for (const name of this.objects.keys()) if (!names.has(name)) this.objects.delete(name);
        for (const name of names) if (!this.objects.has(name) && !this.#removed.has(name)) this.objects.set(name, { name, facts: null });
        this.isComplete = true;
        this.dispatchEvent(new Event("change"));
      },
      failed: (error) => this.dispatchEvent(new CustomEvent("failed", { detail: error })),
    });
  }

  /** The names of all objects, removed ones too, and the sequence up to which they are known. */
  async #names() {
    const { link, config, metaSubjects } = this.store;
    const names = /** @type {Set<string>} */ (new Set());
    let last = Infinity;
    for (let total = 1, offset = 0; offset < total; offset += NAMES_PAGE) {
      const info = await streamInfo(link, config.name, { subjects_filter: metaSubjects, offset });
      for (const subject of Object.keys(info.state.subjects ?? {})) names.add(decodedName(subject));
      total = info.total ?? names.size;
      last = Math.min(last, info.state.last_seq);
    }
    return { names, last };
  }
}
