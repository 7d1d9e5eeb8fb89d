/**
 * Messages of a stream in order and without a gap, as they are stored: a throw-away consumer without acknowledgements,
 * made anew where the last one left off after a lost message, an outage or a hidden tab.
 * Source: the ordered consumer of NATS clients (ADR-17).
 */

import { createConsumer, deleteConsumer } from "./consumers.js";
import { headerRows } from "./stored.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Msg} Msg */
/** @typedef {{ subject: string, sequence: number, time: number, headers: [string, string][], data: Uint8Array, size: number, pending: number }} Delivered time in ms */

const HEARTBEAT_MS = 5_000;
/** After so much silence of the server the consumer is taken for lost. */
const SILENCE_MS = 2.5 * HEARTBEAT_MS;
/** A consumer whose page went away without a word is removed by the server after this time. */
const FORGOTTEN_NS = 30e9;

/**
 * @typedef {object} FollowOptions
 * @property {string} stream
 * @property {string} filter
 * @property {"last_per_subject" | "all" | "new"} [deliver]
 * @property {number} [after] begin behind this sequence, whatever `deliver` says
 * @property {boolean} [headersOnly]
 * @property {(message: Delivered) => void} take
 * @property {() => void} caughtUp all that was stored has been given; called again after each break
 * @property {(error: unknown) => void} failed the consumer could not be made
 * @property {AbortSignal} signal
 */

export class Ordered {
  /**
   * @param {Link} link
   * @param {FollowOptions} options
   */
  constructor(link, options) {
    this.#link = link;
    this.#options = options;
    /** The last sequence that was given; a new consumer begins behind it. */
    this.last = options.after ?? 0;
    /** The first consumer could not be made: there is nothing to go on with. */
    this.hasFailed = false;
    options.signal.addEventListener("abort", () => this.pause());
    link.addEventListener("state", () => {
      if (link.state === "connected" && this.#isWanted) void this.resume();
    }, { signal: options.signal });
    void this.resume();
  }

  /** @type {Link} */
  #link;
  /** @type {FollowOptions} */
  #options;
  /** How many consumers there have been: what an earlier one still sends is not heard. */
  #round = 0;
  #name = "";
  #expected = 1;
  #isCaughtUp = false;
  /** A consumer was made once: later failures are those of an outage. */
  #hasBegun = false;
  /** Nobody paused it. */
  #isWanted = true;
  #silence = 0;
  /** @type {() => void} */
  #unsubscribe = () => {};

  /** Stop listening; what comes meanwhile is given after `resume`. */
  pause() {
    this.#isWanted = false;
    this.#end();
  }

  /** Begin anew, as if nothing had ever been given: the stream is another one of the same name. */
  restart() {
    this.last = 0;
    void this.resume();
  }

  #end() {
    this.#round += 1;
    clearTimeout(this.#silence);
    this.#unsubscribe();
    this.#unsubscribe = () => {};
    if (this.#name && this.#link.state === "connected") void deleteConsumer(this.#link, this.#options.stream, this.#name).catch(() => {}); // the server removes it by itself, too
    this.#name = "";
  }

  /** Begin, or go on behind the last message that was given. */
  async resume() {
    this.#end();
    this.#isWanted = true;
    if (this.#options.signal.aborted) return;
    const round = this.#round;
    const inbox = this.#link.newInbox();
    this.#expected = 1;
    this.#isCaughtUp = false;
    try {
      this.#unsubscribe = this.#link.listen(inbox, (message) => {
        if (round === this.#round) this.#onMessage(message);
      }, { failed: (error) => this.#fail(error, round) });
      const info = await createConsumer(this.#link, this.#options.stream, this.#config(inbox), "create");
      if (round !== this.#round) return void deleteConsumer(this.#link, this.#options.stream, info.name).catch(() => {});
      this.#name = info.name;
      this.#hasBegun = true;
      this.#listenForSilence();
      if (info.num_pending === 0 && info.delivered.consumer_seq === 0) this.#caughtUp();
    } catch (error) {
      this.#fail(error, round);
    }
    return undefined;
  }

  /** @param {string} inbox */
  #config(inbox) {
    const { filter, deliver = "last_per_subject", headersOnly = false } = this.#options;
    const name = `console-${inbox.split(".").pop()}`;
    return {
      name, deliver_subject: inbox, filter_subject: filter, headers_only: headersOnly, ack_policy: "none", max_deliver: 1, replay_policy: "instant",
      mem_storage: true, num_replicas: 1, inactive_threshold: FORGOTTEN_NS, flow_control: true, idle_heartbeat: HEARTBEAT_MS * 1e6,
      ...(this.last ? { deliver_policy: "by_start_sequence", opt_start_seq: this.last + 1 } : { deliver_policy: deliver }),
    };
  }

  /** @param {Msg} message */
  #onMessage(message) {
    this.#listenForSilence();
    if (message.headers?.code === 100) return this.#onStatus(message);
    const place = placeOf(message.reply ?? "");
    if (!place) return undefined;
    const [sequence, order, time, pending] = place;
    if (order !== this.#expected) return void this.resume();
    this.#expected += 1;
    this.last = Math.max(this.last, sequence);
    const headers = headerRows(message.headers);
    const size = Number(headers.find(([name]) => name === "Nats-Msg-Size")?.[1] ?? message.data.length);
    this.#options.take({ subject: message.subject, sequence, time: time / 1e6, headers, data: message.data, size, pending });
    if (pending === 0) this.#caughtUp();
    return undefined;
  }

  /**
   * A heartbeat, or a question of the server whether all before it was read.
   * @param {Msg} message
   */
  #onStatus(message) {
    const stalled = message.headers?.get("Nats-Consumer-Stalled");
    const reply = message.reply || stalled;
    if (reply) void this.#link.publish(reply, "").catch(() => {}); // without it the server waits, and silence makes a new consumer
    const last = message.headers?.get("Nats-Last-Consumer");
    if (last && !message.reply && Number(last) >= this.#expected) void this.resume();
  }

  #caughtUp() {
    if (this.#isCaughtUp) return;
    this.#isCaughtUp = true;
    this.#options.caughtUp();
  }

  #listenForSilence() {
    clearTimeout(this.#silence);
    this.#silence = window.setTimeout(() => void this.resume(), SILENCE_MS);
  }

  /**
   * The first failure is the page's; later ones, of an outage, are tried again.
   *
   * @param {unknown} error
   * @param {number} round
   */
  #fail(error, round) {
    if (round !== this.#round || this.#options.signal.aborted) return;
    this.#end();
    this.hasFailed = !this.#hasBegun;
    if (this.#hasBegun) this.#silence = window.setTimeout(() => void this.resume(), HEARTBEAT_MS);
    this.#options.failed(error);
  }
}

/**
 * Sequence, order in the consumer, time in ns, and how many follow, from the subject of acknowledgements: of nine
 * parts, or of eleven and more, where the domain and the account stand before the stream.
 *
 * @param {string} reply
 */
function placeOf(reply) {
  const parts = reply.split(".");
  if (!reply.startsWith("$JS.ACK.") || parts.length < 9) return null;
  const first = parts.length === 9 ? 5 : 7;
  return parts.slice(first, first + 4).map(Number);
}
