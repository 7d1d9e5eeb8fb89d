/**
 * The objects of one bucket with their facts; where they come by their names alone, with the facts of those in view.
 * Never here: how they are kept up to date (bucket_index.js), elements.
 */

import { decodedName, factsOf } from "../nats/object_facts.js";
import { BucketIndex } from "./bucket_index.js";

/** @typedef {import("../nats/objects.js").Store} Store */
/** @typedef {import("../nats/object_facts.js").ObjectFacts} ObjectFacts */
/** @typedef {{ name: string, facts: ObjectFacts | null }} ObjectRow facts null: not asked for yet */

/** @extends {BucketIndex<ObjectRow>} */
export class ObjectIndex extends BucketIndex {
  /**
   * @param {Store} store
   * @param {AbortSignal} signal
   */
  constructor(store, signal) {
    super({ link: store.link, stream: store.config.name, subjects: store.metaSubjects }, signal);
    this.store = store;
  }

  #isAsking = false;

  /** Objects that are there. */
  get objects() {
    return this.entries;
  }

  /**
   * Ask for the facts of these objects, if they are not known: one after the other.
   * @param {ObjectRow[]} rows
   */
  async learn(rows) {
    if (!this.isByNames || this.#isAsking) return;
    this.#isAsking = true;
    try {
      for (const { name, facts } of rows) {
        if (facts || this.removed.has(name) || this.signal.aborted) continue;
        const found = await this.store.facts(name);
        if (found) this.#takeFacts(found);
      }
    } catch (error) {
      this.fail(error);
    } finally {
      this.#isAsking = false;
    }
  }

  /** @override @param {import("../nats/ordered.js").Delivered} message */
  take(message) {
    this.#takeFacts(factsOf(message));
  }

  /** @param {ObjectFacts} facts */
  #takeFacts(facts) {
    if (facts.isDeleted) this.remove(facts.name);
    else this.put(facts.name, { name: facts.name, facts });
  }

  /** @override @param {string} subject */
  nameOf(subject) {
    return decodedName(subject);
  }

  /** @override @param {string} name @param {number} _messages @param {ObjectRow | undefined} known */
  named(name, _messages, known) {
    return known ?? { name, facts: null };
  }

  /** @override @param {ObjectRow} row */
  sequenceOf({ facts }) {
    return facts?.sequence ?? 0;
  }

  /** An object has the subject of its facts, and one of its chunks if it has any. @override */
  get subjectsKnown() {
    return super.subjectsKnown + [...this.objects.values()].filter((row) => row.facts?.chunks).length;
  }
}
