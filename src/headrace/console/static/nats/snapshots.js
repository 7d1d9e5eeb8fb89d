/**
 * A whole stream out of a server, and back into one, in chunks that each side acknowledges. The bytes are those of
 * nats-server's snapshots (`stream.tar.s2`), which either server takes.
 * Never here: the file that a person keeps (data/backup_file.js).
 */

import { Refused, StrangeAnswer, NoAnswer } from "./errors.js";
import { readJson } from "./answers.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("./jetstream.js").StreamState} StreamState */
/** @typedef {import("./jetstream.js").StreamInfo} StreamInfo */

/** Bytes of a snapshot that are sent at once. */
const CHUNK = 131_072;
/** So many chunks are on their way to a server before one of them is acknowledged. */
const WINDOW = 16;
/** A server that says nothing for so long has given up, in ms. */
const SILENCE_MS = 15_000;
/** For its last answer it has longer: it makes the stream durable meanwhile, in ms. */
const LAST_MS = 300_000;

/**
 * Read the snapshot of a stream.
 *
 * Raises: as Link.askJson; Refused where the server breaks it off, or where there is more than `most`; NoAnswer
 * where it is silent.
 *
 * @param {Link} link
 * @param {string} stream
 * @param {{ progress: (done: number, total: number) => void, signal: AbortSignal, consumers: boolean, most: number }} options
 * @returns {Promise<{ config: StreamConfig, state: StreamState, parts: Uint8Array[] } | null>} null: it was stopped
 */
export function takeSnapshot(link, stream, options) {
  return noted(link, "streamBackup", [stream], readSnapshot(link, stream, options));
}

/**
 * @param {Link} link
 * @param {string} stream
 * @param {{ progress: (done: number, total: number) => void, signal: AbortSignal, consumers: boolean, most: number }} options
 */
async function readSnapshot(link, stream, { progress, signal, consumers, most }) {
  const inbox = link.newInbox();
  const parts = /** @type {Uint8Array[]} */ ([]);
  let size = 0;
  let total = 0;
  /** @type {(error: unknown) => void} */
  let end = () => {};
  let timer = 0;
  const done = new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
    end = (error) => (error ? reject(error) : resolve());
  });
  done.catch(() => {}); // it is awaited below, unless the request itself fails first
  const wait = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => end(new NoAnswer(inbox, SILENCE_MS)), SILENCE_MS);
  };
  const stopListening = link.listen(inbox, (message) => {
    wait();
    if (!message.data.length) return end(broken(message));
    size += message.data.length;
    if (size > most) return end(new Refused(413, 0, "the snapshot is too large for a browser"));
    parts.push(message.data.slice());
    progress(size, Math.max(size, total));
    message.respond();
    return undefined;
  });
  const stop = () => end(null);
  signal.addEventListener("abort", stop);
  try {
    const answer = /** @type {{ config: StreamConfig, state: StreamState }} */ (
      await link.askJson(`$JS.API.STREAM.SNAPSHOT.${stream}`, { deliver_subject: inbox, no_consumers: !consumers, chunk_size: CHUNK })
    );
    total = answer.state.bytes;
    wait();
    await done;
    return signal.aborted ? null : { config: answer.config, state: answer.state, parts };
  } finally {
    clearTimeout(timer);
    stopListening();
    signal.removeEventListener("abort", stop);
  }
}

/**
 * The error in the last message of a snapshot, or null where it is whole.
 * @param {import("./link.js").Msg} message
 */
function broken(message) {
  const code = message.headers?.code ?? 0;
  return code === 0 || code === 204 ? null : new Refused(code, 0, message.headers?.description ?? "");
}

/**
 * Make a stream of a snapshot; until its end there is no such stream.
 *
 * Raises: as Link.askJson; Refused where the server does not take it; NoAnswer where it is silent.
 *
 * @param {Link} link
 * @param {StreamConfig} config with another name, if one likes
 * @param {StreamState} state that of the snapshot
 * @param {Blob} data
 * @param {{ progress: (done: number, total: number) => void, signal: AbortSignal }} options
 * @returns {Promise<StreamInfo | null>} null: it was stopped, and the server forgets what it has
 */
export function restoreSnapshot(link, config, state, data, options) {
  return noted(link, "streamRestore", [config.name], sendSnapshot(link, config, state, data, options));
}

/**
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {StreamState} state
 * @param {Blob} data
 * @param {{ progress: (done: number, total: number) => void, signal: AbortSignal }} options
 * @returns {Promise<StreamInfo | null>}
 */
async function sendSnapshot(link, config, state, data, { progress, signal }) {
  const { deliver_subject: subject } = /** @type {{ deliver_subject?: string }} */ (await link.askJson(`$JS.API.STREAM.RESTORE.${config.name}`, { config, state }));
  if (!subject) throw new StrangeAnswer("the server did not say where the snapshot is to be sent");
  const inbox = link.newInbox();
  const sent = new Acknowledged(subject);
  const stopListening = link.listen(inbox, (message) => sent.take(message));
  const size = Math.min(CHUNK, link.server.max_payload);
  try {
    for (let start = 0; start < data.size; start += size) {
      if (signal.aborted) return null;
      await sent.below(WINDOW);
      const chunk = new Uint8Array(await data.slice(start, start + size).arrayBuffer());
      sent.waiting += 1;
      await link.publish(subject, chunk, { reply: inbox });
      progress(Math.min(start + size, data.size), data.size);
    }
    await sent.below(1);
    return await link.askJson(subject, undefined, { timeout: LAST_MS });
  } finally {
    stopListening();
  }
}

/** How many chunks the server has not acknowledged yet. */
class Acknowledged {
  /** @param {string} subject */
  constructor(subject) {
    this.#subject = subject;
  }

  waiting = 0;
  /** @type {string} */
  #subject;
  /** @type {Error | null} */
  #error = null;
  /** @type {() => void} */
  #wake = () => {};

  /** @param {import("./link.js").Msg} message */
  take(message) {
    this.waiting -= 1;
    if (message.data.length) {
      const said = /** @type {{ error?: { code: number, err_code: number, description: string } }} */ (readJson(message));
      if (said.error) this.#error = new Refused(said.error.code, said.error.err_code, said.error.description);
    }
    this.#wake();
  }

  /**
   * Done when fewer than `count` wait. Raises: Refused, NoAnswer.
   * @param {number} count
   */
  async below(count) {
    while (!this.#error && this.waiting >= count) {
      await new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
        const timer = setTimeout(() => reject(new NoAnswer(this.#subject, SILENCE_MS)), SILENCE_MS);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#error) throw this.#error;
  }
}
