/**
 * Key-value buckets, as all NATS clients have them: a stream `KV_<bucket>` with a subject for each key; a removed key
 * has a message that says so. Source: ADR-8 of the NATS architecture; client/keyvalue.py.
 * Never here: elements.
 */

import { bucketInfo, withSettings } from "./buckets.js";
import { Refused } from "./errors.js";
import { publishStored } from "./jetstream.js";
import { noted } from "./own_actions.js";
import { readForward, storedMessage } from "./stored.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("./jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("./jetstream.js").StoredMessage} StoredMessage */
/** @typedef {"PUT" | "DEL" | "PURGE"} Operation */

/** @typedef {{ key: string, revision: number, time: number, operation: Operation, size: number, value: Uint8Array, headers: [string, string][] }} Entry time in ms */

export const PREFIX = "KV_";
export const MOST_HISTORY = 64;
/** The server's code for a revision that is not the expected one. */
const WRONG_REVISION = 10071;
const EXPECTED = "Nats-Expected-Last-Subject-Sequence";

/** A key whose last revision is another one than the writer expected. */
export class Conflict extends Error {
  /**
   * @param {string} key
   * @param {number} expected 0: none
   * @param {Entry | null} found
   */
  constructor(key, expected, found) {
    super(`"${key}" is at revision ${found?.revision ?? 0}, not ${expected}`);
    this.expected = expected;
    this.found = found;
  }
}

/** Clients take no other keys. @param {string} key */
export function isKey(key) {
  return /^[-/_=.a-zA-Z0-9]+$/.test(key) && !key.startsWith(".") && !key.endsWith(".") && !key.includes("..");
}

/**
 * The configuration of a new bucket's stream, as all clients make it.
 *
 * @param {string} bucket
 * @param {import("./buckets.js").BucketSettings} settings
 * @returns {StreamConfig}
 */
export function bucketConfig(bucket, settings) {
  const config = {
    name: PREFIX + bucket, subjects: [`$KV.${bucket}.>`], max_msgs_per_subject: 1, max_bytes: -1, max_age: 0, max_msg_size: -1, max_msgs: -1, max_consumers: -1,
    storage: "file", num_replicas: 1, discard: "new", deny_delete: true, allow_rollup_hdrs: true, allow_direct: true, duplicate_window: 120e9,
  };
  return withSettings(config, settings);
}

/** A bucket that is open: where its keys are stored and written, which differs in a mirror. */
export class Bucket {
  /**
   * @param {Link} link
   * @param {string} name
   * @param {StreamInfo} info
   */
  constructor(link, name, info) {
    this.link = link;
    this.name = name;
    this.info = info;
    const mirror = info.config.mirror;
    const origin = mirror ? String(mirror.name).replace(/^KV_/, "") : name;
    /** The beginning of the subjects of keys as they are stored. */
    this.stored = `$KV.${origin}.`;
    /** And as they are published. */
    this.written = `${mirror?.external?.api ? `${mirror.external.api}.` : ""}${this.stored}`;
  }

  /** @param {Link} link @param {string} name */
  static async open(link, name) {
    return new Bucket(link, name, await bucketInfo(link, PREFIX, name));
  }

  get config() {
    return this.info.config;
  }

  /** Keys may have a time of their own. */
  get hasTtl() {
    return Boolean(this.config.allow_msg_ttl);
  }

  /**
   * What was said last of a key, its removal too; null if nothing was.
   * @param {string} key
   */
  async last(key) {
    const found = await storedMessage(this.link, this.config, { last_by_subj: this.stored + key });
    return found && this.entry(found);
  }

  /**
   * The revisions of a key that are kept, newest first.
   * @param {string} key
   * @param {AbortSignal} signal
   */
  async history(key, signal) {
    const found = /** @type {Entry[]} */ ([]);
    for (let isEnd = false, from = 1; !isEnd && !signal.aborted; from = (found[found.length - 1]?.revision ?? 0) + 1) {
      const before = found.length;
      isEnd = await readForward(this.link, this.config, { from, subject: this.stored + key, count: MOST_HISTORY, signal, take: (message) => { found.push(this.entry(message)); } });
      if (found.length === before) break;
    }
    return found.reverse();
  }

  /**
   * Set a value; gives its revision. With `expected` only if that is the last revision (0: the key has no value).
   *
   * Raises: Conflict with what is there.
   *
   * @param {string} key
   * @param {Uint8Array} value
   * @param {{ expected?: number, ttlNs?: number }} [options]
   */
  async put(key, value, { expected, ttlNs } = {}) {
    return this.#write(key, value, expected, ttlNs ? { "Nats-TTL": `${Math.ceil(ttlNs / 1e9)}s` } : /** @type {Record<string, string>} */ ({}));
  }

  /**
   * Set the value of a key that has none. Raises: Conflict if it has one.
   *
   * @param {string} key
   * @param {Uint8Array} value
   * @param {{ ttlNs?: number }} [options]
   */
  async create(key, value, options = {}) {
    try {
      return await this.put(key, value, { ...options, expected: 0 });
    } catch (error) {
      if (!(error instanceof Conflict) || !error.found || error.found.operation === "PUT") throw error;
      return this.put(key, value, { ...options, expected: error.found.revision });
    }
  }

  /** Remove a key; its history stays. @param {string} key @param {number} [expected] */
  async delete(key, expected) {
    return this.#write(key, new Uint8Array(), expected, { "KV-Operation": "DEL" });
  }

  /** Remove a key and its history. @param {string} key @param {number} [expected] */
  async purge(key, expected) {
    return this.#write(key, new Uint8Array(), expected, { "KV-Operation": "PURGE", "Nats-Rollup": "sub" });
  }

  /**
   * @param {string} key
   * @param {Uint8Array} value
   * @param {number | undefined} expected
   * @param {Record<string, string>} headers
   */
  async #write(key, value, expected, headers) {
    const wanted = expected === undefined ? headers : { ...headers, [EXPECTED]: String(expected) };
    try {
      return (await noted(this.link, WORDS[headers["KV-Operation"] ?? ""], [this.name, key], publishStored(this.link, this.written + key, value, Object.entries(wanted)))).seq;
    } catch (error) {
      if (expected === undefined || !(error instanceof Refused) || error.errorCode !== WRONG_REVISION) throw error;
      throw new Conflict(key, expected, await this.last(key));
    }
  }

  /**
   * A stored message as what it says of its key.
   * @param {{ subject: string, sequence: number, time: string | number, headers: [string, string][], data: Uint8Array, size?: number }} message
   * @returns {Entry}
   */
  entry({ subject, sequence, time, headers, data, size = data.length }) {
    return { key: subject.slice(this.stored.length), revision: sequence, time: new Date(time).getTime(), operation: operationOf(headers), size, value: data, headers };
  }
}

const WORDS = /** @type {Record<string, import("./own_actions.js").ActionName>} */ ({ "": "keySet", DEL: "keyDelete", PURGE: "keyPurge" });

/** @param {[string, string][]} headers @returns {Operation} */
function operationOf(headers) {
  for (const [name, value] of headers) {
    if (name === "KV-Operation") return value === "DEL" || value === "PURGE" ? value : "PUT";
    // The server's own: the key expired, or was purged or removed by sequence.
    if (name === "Nats-Marker-Reason") return value === "Remove" ? "DEL" : "PURGE";
  }
  return "PUT";
}
