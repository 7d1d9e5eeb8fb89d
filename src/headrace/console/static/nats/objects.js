/**
 * Object stores, as all NATS clients have them: a stream `OBJ_<bucket>` with the chunks of objects, and beside them a
 * message for each object with its name, size and digest. Source: ADR-20 of the NATS architecture; client/objects.py.
 * Never here: elements.
 */

import { Sha256 } from "../data/sha256.js";
import { bucketInfo, withSettings } from "./buckets.js";
import { publishStored, purgeStream } from "./jetstream.js";
import { CHUNK, documentOf, encodedName, factsOf, newId, padded, shownDigest } from "./object_facts.js";
import { noted } from "./own_actions.js";
import { readForward, storedMessage } from "./stored.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("./jetstream.js").StreamConfig} StreamConfig */

/** @typedef {import("./object_facts.js").ObjectFacts} ObjectFacts */

export const PREFIX = "OBJ_";
/** Chunks that are on their way to the server at once. */
const WINDOW = 16;
/** Chunks that one request asks for. */
const BATCH = 32;
/** Beside a chunk a message has its subject and headers, which count as well. */
const ROOM = 1_024;

/** What was read is not what was written. */
export class WrongDigest extends Error {}
/** Nothing of that name is there. */
export class NoObject extends Error {}
/** The person stopped it. */
export class Stopped extends Error {}

/**
 * @param {string} bucket
 * @param {import("./buckets.js").BucketSettings} settings
 * @returns {StreamConfig}
 */
export function storeConfig(bucket, settings) {
  const config = {
    name: PREFIX + bucket, subjects: [`$O.${bucket}.C.>`, `$O.${bucket}.M.>`], max_bytes: -1, max_age: 0, storage: "file", num_replicas: 1,
    discard: "new", allow_rollup_hdrs: true, allow_direct: true,
  };
  return withSettings(config, settings);
}

export class Store {
  /**
   * @param {Link} link
   * @param {string} name
   * @param {StreamInfo} info
   */
  constructor(link, name, info) {
    this.link = link;
    this.name = name;
    this.info = info;
  }

  /** @param {Link} link @param {string} name */
  static async open(link, name) {
    return new Store(link, name, await bucketInfo(link, PREFIX, name));
  }

  get config() {
    return this.info.config;
  }

  /** The subjects of the facts of all objects. */
  get metaSubjects() {
    return `$O.${this.name}.M.>`;
  }

  /** @param {string} object */
  metaSubject(object) {
    return `$O.${this.name}.M.${encodedName(object)}`;
  }

  /**
   * The facts of an object, a removed one too; null if there never was one.
   * @param {string} object
   */
  async facts(object) {
    const found = await storedMessage(this.link, this.config, { last_by_subj: this.metaSubject(object) });
    return found && factsOf(found);
  }

  /**
   * Write an object; one of that name is replaced when all is written, and after a failure nothing of the new one stays.
   *
   * Raises: Stopped.
   *
   * @param {string} object
   * @param {Blob} file
   * @param {{ signal: AbortSignal, progress: (done: number) => void, description?: string }} options
   */
  put(object, file, options) {
    return noted(this.link, "objectPut", [this.name, object], this.#put(object, file, options));
  }

  /**
   * @param {string} object
   * @param {Blob} file
   * @param {{ signal: AbortSignal, progress: (done: number) => void, description?: string }} options
   */
  async #put(object, file, { signal, progress, description = "" }) {
    const before = await this.facts(object);
    const nuid = newId();
    const size = Math.min(CHUNK, this.link.server.max_payload - ROOM);
    try {
      const digest = await this.#sendChunks(nuid, file, size, signal, progress);
      const facts = {
        bucket: this.name, name: object, nuid, size: file.size, chunks: Math.ceil(file.size / size), digest, modified: Date.now(), description, headers: {},
        metadata: {}, chunkSize: size, isDeleted: false, link: null, sequence: 0,
      };
      await this.#writeFacts(facts);
    } catch (error) {
      if (this.link.state === "connected") await this.#purgeChunks(nuid).catch(() => {}); // the first error is the one to tell
      throw error;
    }
    if (before?.chunks) await this.#purgeChunks(before.nuid);
  }

  /**
   * @param {string} nuid
   * @param {Blob} file
   * @param {number} size
   * @param {AbortSignal} signal
   * @param {(done: number) => void} progress
   */
  async #sendChunks(nuid, file, size, signal, progress) {
    const subject = `$O.${this.name}.C.${nuid}`;
    const digest = new Sha256();
    const underway = /** @type {Set<Promise<unknown>>} */ (new Set());
    let failure = /** @type {unknown} */ (null);
    let stored = 0;
    for (let start = 0; start < file.size && !failure; start += size) {
      if (signal.aborted) failure = new Stopped("stopped");
      if (failure) break;
      const chunk = new Uint8Array(await file.slice(start, start + size).arrayBuffer());
      digest.update(chunk);
      const sent = publishStored(this.link, subject, chunk)
        .then(() => progress((stored += chunk.length)))
        .catch((error) => { failure ??= error; })
        .finally(() => underway.delete(sent));
      underway.add(sent);
      if (underway.size >= WINDOW) await Promise.race(underway);
    }
    await Promise.all(underway);
    if (failure ?? signal.aborted) throw failure ?? new Stopped("stopped");
    return shownDigest(digest.digest());
  }

  /**
   * Read an object, following a link once; its digest is checked.
   *
   * Raises: NoObject, WrongDigest, Stopped.
   *
   * @param {string} object
   * @param {{ signal: AbortSignal, progress?: (done: number, size: number) => void }} options
   * @returns {Promise<{ facts: ObjectFacts, blob: Blob }>}
   */
  async get(object, { signal, progress = () => {} }) {
    const facts = await this.facts(object);
    if (!facts || facts.isDeleted) throw new NoObject(object);
    if (!facts.link) return { facts, blob: await this.#read(facts, signal, progress) };
    if (!facts.link.name) throw new NoObject(facts.link.bucket);
    const place = facts.link.bucket === this.name ? this : await Store.open(this.link, facts.link.bucket);
    const target = await place.facts(facts.link.name);
    if (!target || target.isDeleted || target.link) throw new NoObject(facts.link.name);
    return { facts: target, blob: await place.#read(target, signal, progress) };
  }

  /**
   * @param {ObjectFacts} facts
   * @param {AbortSignal} signal
   * @param {(done: number, size: number) => void} progress
   */
  async #read(facts, signal, progress) {
    const digest = new Sha256();
    const parts = /** @type {Blob[]} */ ([]);
    let [done, count, from] = [0, 0, 1];
    for (let isEnd = facts.chunks === 0; !isEnd && count < facts.chunks; ) {
      const batch = /** @type {Uint8Array[]} */ ([]);
      isEnd = await readForward(this.link, this.config, {
        from, subject: `$O.${this.name}.C.${facts.nuid}`, count: BATCH, signal,
        take: ({ data, sequence }) => {
          digest.update(data);
          batch.push(data);
          done += data.length;
          count += 1;
          from = sequence + 1;
          progress(done, facts.size);
        },
      });
      if (signal.aborted) throw new Stopped("stopped");
      if (!batch.length) break;
      parts.push(new Blob(/** @type {BlobPart[]} */ (batch)));
    }
    if (done !== facts.size || count !== facts.chunks) throw new WrongDigest(`${done} bytes in ${count} chunks, not ${facts.size} in ${facts.chunks}`);
    const found = shownDigest(digest.digest());
    if (padded(facts.digest) !== padded(found)) throw new WrongDigest(`${found}, not ${facts.digest}`);
    return new Blob(parts);
  }

  /** Remove an object; what says so stays. @param {string} object */
  remove(object) {
    return noted(this.link, "objectDelete", [this.name, object], this.#remove(object));
  }

  /** @param {string} object */
  async #remove(object) {
    const facts = await this.facts(object);
    if (!facts || facts.isDeleted) throw new NoObject(object);
    await this.#writeFacts({ ...facts, isDeleted: true, size: 0, chunks: 0, digest: "" }, facts.sequence);
    await this.#purgeChunks(facts.nuid);
  }

  /**
   * Change what is said of an object: its name and its description. Its chunks stay.
   *
   * @param {ObjectFacts} facts
   * @param {{ name: string, description: string }} change
   */
  rename(facts, change) {
    return noted(this.link, "objectRename", [this.name, facts.name, change.name], this.#rename(facts, change));
  }

  /**
   * @param {ObjectFacts} facts
   * @param {{ name: string, description: string }} change
   */
  async #rename(facts, { name, description }) {
    if (name === facts.name) return void (await this.#writeFacts({ ...facts, description }, facts.sequence));
    const there = await this.facts(name);
    if (there && !there.isDeleted) throw new Error(`There is an object “${name}” already.`);
    await this.#writeFacts({ ...facts, name, description }, there?.sequence ?? 0);
    await purgeStream(this.link, this.config.name, { filter: this.metaSubject(facts.name) });
    return undefined;
  }

  /**
   * Make an object that leads to another one, or to a whole bucket.
   *
   * @param {string} object
   * @param {{ bucket: string, name: string }} target
   */
  addLink(object, target) {
    return noted(this.link, "objectLink", [this.name, object], this.#addLink(object, target));
  }

  /**
   * @param {string} object
   * @param {{ bucket: string, name: string }} target
   */
  async #addLink(object, target) {
    const there = await this.facts(object);
    if (there && !there.isDeleted) throw new Error(`There is an object “${object}” already.`);
    await this.#writeFacts({
      bucket: this.name, name: object, nuid: newId(), size: 0, chunks: 0, digest: "", modified: Date.now(), description: "", headers: {}, metadata: {},
      chunkSize: CHUNK, isDeleted: false, link: target, sequence: 0,
    }, there?.sequence ?? 0);
  }

  /**
   * @param {ObjectFacts} facts
   * @param {number} [expected] the sequence of the facts that they replace, 0 for none
   */
  async #writeFacts(facts, expected) {
    /** @type {Record<string, string>} */
    const headers = { "Nats-Rollup": "sub", ...(expected === undefined ? {} : { "Nats-Expected-Last-Subject-Sequence": String(expected) }) };
    await publishStored(this.link, this.metaSubject(facts.name), JSON.stringify(documentOf(facts)), Object.entries(headers));
  }

  /** @param {string} nuid */
  async #purgeChunks(nuid) {
    await purgeStream(this.link, this.config.name, { filter: `$O.${this.name}.C.${nuid}` });
  }
}
