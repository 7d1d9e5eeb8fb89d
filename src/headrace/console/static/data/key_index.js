/**
 * The keys of one bucket with their revisions, sizes and times, and their last changes.
 * Never here: how they are kept up to date (bucket_index.js), elements.
 */

import { BucketIndex } from "./bucket_index.js";

/** @typedef {import("../nats/keyvalue.js").Bucket} Bucket */
/** @typedef {import("../nats/keyvalue.js").Operation} Operation */
/** @typedef {{ key: string, revision: number, time: number, size: number, operation: Operation, kept?: number }} KeyFacts revision 0: not known */

/** So many of the last changes are kept. */
const MOST_CHANGES = 500;

/** @extends {BucketIndex<KeyFacts>} */
export class KeyIndex extends BucketIndex {
  /**
   * @param {Bucket} bucket
   * @param {AbortSignal} signal
   */
  constructor(bucket, signal) {
    super({ link: bucket.link, stream: bucket.config.name, subjects: `${bucket.stored}>`, headersOnly: true }, signal);
    this.bucket = bucket;
    /** The newest first; from when on it was looked. @type {KeyFacts[]} */
    this.changes = [];
  }

  /** Keys that have a value. */
  get keys() {
    return this.entries;
  }

  /** @override @param {import("../nats/ordered.js").Delivered} message */
  take(message) {
    const { key, revision, time, size, operation } = this.bucket.entry(message);
    const facts = { key, revision, time, size, operation };
    if (operation === "PUT") this.put(key, facts);
    else this.remove(key);
    if (!this.isComplete) return;
    this.changes.unshift(facts);
    if (this.changes.length > MOST_CHANGES) this.changes.length = MOST_CHANGES;
  }

  /** @override @param {string} subject */
  nameOf(subject) {
    return subject.slice(this.bucket.stored.length);
  }

  /** @override @param {string} key @param {number} kept @returns {KeyFacts} */
  named(key, kept) {
    return { key, revision: 0, time: 0, size: 0, operation: "PUT", kept };
  }

  /** @override @param {KeyFacts} facts */
  sequenceOf({ revision }) {
    return revision;
  }
}
