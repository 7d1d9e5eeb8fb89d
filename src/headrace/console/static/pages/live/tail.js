/**
 * The tail of subjects: subscriptions, what of it is kept, and how many were left out. Above a rate it samples: each
 * moment has a number of messages, and when they have come, the subscriptions end until the next one. In a tab that does
 * not keep up the number is smaller.
 * Never here: elements.
 */

import { duration, brief } from "../../format.js";
import { received } from "../../nats/messages.js";
import { withoutCovered } from "../../nats/subjects.js";
import { LARGEST } from "./filter.js";
import { gapNote, Ring } from "./ring.js";
import { SubjectCounts } from "./subject_counts.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/link.js").Msg} Msg */
/** @typedef {import("./filter.js").Filter} Filter */

/** A moment of sampling, in ms, and what it takes at most: 20,000 messages a second, 32 MB a second. */
const MOMENT_MS = 250;
const MOMENT_MESSAGES = 5_000;
/** A moment that comes so late shows a tab that does not keep up: half as many messages from then on, at least so many, and
 * step by step more again. */
const LATE_MS = 125;
const FEWEST_MESSAGES = 250;
/** After so many messages the clock is looked at. */
const CHECKED = 128;
const MOMENT_BYTES = 8 * 1_048_576;
/** So much a moment counts less than the next one, in the estimate of the rate. */
const KEPT = 0.8;
/** Before a gap messages came at least so quickly: then this tab was too slow. By the second. */
const QUICK = 5_000;
/** Filtering anew goes on for so long at a time, in ms. */
const SLICE_MS = 8;
/** Sampling is told until it has not been needed for so long, in ms. */
const TOLD_MS = 2_000;

export class Tail {
  /**
   * @param {Link} link
   * @param {{ patterns: string[], queue?: string, filter: Filter | null, showsSystem: boolean, signal: AbortSignal,
   *   came: () => void, failed: (error: unknown) => void, now?: () => number }} options `came`: something is new; called for
   *   each message, so it is cheap. `now`: the clock, in ms
   */
  constructor(link, { patterns, queue, filter, showsSystem, signal, came, failed, now = () => performance.now() }) {
    this.#link = link;
    this.#now = now;
    this.#momentBegan = now();
    this.#patterns = withoutCovered(patterns);
    this.#queue = queue || undefined;
    this.filter = filter;
    this.showsSystem = showsSystem;
    this.#came = came;
    this.#failed = failed;
    this.#isWide = patterns.some((pattern) => /^[*>]/.test(pattern));
    link.addEventListener("state", () => this.#onState(), { signal });
    signal.addEventListener("abort", () => this.stop());
    this.#inBefore = link.stats.inMsgs;
    this.#listen();
    this.#timer = window.setInterval(() => this.#onMoment(), MOMENT_MS);
  }

  ring = new Ring();
  subjects = new SubjectCounts();
  /** Messages that came, their bytes, those that match, are hidden, too large for the filter. */
  count = 0;
  bytes = 0;
  matching = 0;
  hidden = 0;
  unread = 0;
  /** An estimate of the messages that came while it did not listen. */
  skipped = 0;
  isRunning = true;
  /** @type {Filter | null} */
  filter;
  showsSystem = false;

  /** @type {Link} */
  #link;
  /** @type {() => number} */
  #now;
  /** @type {string[]} */
  #patterns;
  /** @type {string | undefined} */
  #queue;
  /** @type {() => void} */
  #came;
  /** @type {(error: unknown) => void} */
  #failed;
  #isWide = false;
  #timer = 0;
  /** @type {(() => void)[]} */
  #ends = [];
  #momentCount = 0;
  #momentBytes = 0;
  #mostMessages = MOMENT_MESSAGES;
  #momentBegan = 0;
  #cutAt = 0;
  #isDraining = false;
  #lastCut = -Infinity;
  /** Messages of the connection before this moment. */
  #inBefore = 0;
  /** Messages that came, and the milliseconds for which it listened, of the last moments: the older, the less. */
  #arrived = 0;
  #listened = 0;
  #lostAt = 0;
  /** Messages that are yet to be filtered anew. @type {import("./ring.js").TailRow[]} */
  #unfiltered = [];

  /** True while more comes than is looked at. */
  get isSampling() {
    return this.isRunning && this.#now() - this.#lastCut < TOLD_MS;
  }

  /** About how many messages a second are sent, those that it does not look at too. */
  get estimate() {
    return this.#listened ? (this.#arrived * 1_000) / this.#listened : 0;
  }

  get isLost() {
    return this.#lostAt > 0;
  }

  stop() {
    this.isRunning = false;
    clearInterval(this.#timer);
    this.#end();
  }

  clear() {
    this.ring.clear();
    this.#unfiltered = [];
    this.subjects = new SubjectCounts();
    this.count = this.bytes = this.matching = this.hidden = this.unread = this.skipped = 0;
  }

  /**
   * Filter the messages that are kept anew, in slices, so that the page does not stand still; done when all are.
   * Another call takes over.
   */
  async refilter() {
    const rows = [...this.#unfiltered, ...this.ring.newest().reverse()];
    this.ring.clear();
    this.#unfiltered = rows;
    const kept = [];
    let began = performance.now();
    for (const row of rows) {
      if (row.note !== undefined || this.#accepts(row.data)) kept.push(row);
      if (performance.now() - began < SLICE_MS) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (this.#unfiltered !== rows) return;
      began = performance.now();
    }
    this.#unfiltered = [];
    this.ring.restore([...kept, ...this.ring.newest().reverse()]);
    this.matching = this.ring.count;
    this.#came();
  }

  #listen() {
    try {
      this.#ends = this.#patterns.map((pattern) => this.#link.listen(pattern, (message) => this.#take(message), { queue: this.#queue, failed: (error) => this.#refused(pattern, error) }));
    } catch (error) {
      this.stop();
      this.#failed(error);
    }
  }

  /**
   * One of the subjects was refused: the others go on.
   * @param {string} pattern
   * @param {unknown} error
   */
  #refused(pattern, error) {
    this.#patterns = this.#patterns.filter((other) => other !== pattern);
    if (!this.#patterns.length) this.stop();
    this.#failed(error);
  }

  #end() {
    for (const end of this.#ends) end();
    this.#ends = [];
  }

  /** @param {Msg} message */
  #take(message) {
    const size = message.data.length;
    this.#momentCount += 1;
    this.#momentBytes += size;
    if (this.#momentCount >= this.#mostMessages || this.#momentBytes >= MOMENT_BYTES) this.#cut();
    else if (this.#momentCount % CHECKED === 0 && this.#isLate) this.#onLate();
    const subject = message.subject;
    if (this.#isWide && !this.showsSystem && isSystem(subject)) {
      this.hidden += 1;
      this.#came();
      return;
    }
    this.count += 1;
    this.bytes += size;
    this.subjects.add(subject, size);
    if (this.#accepts(message.data)) {
      this.matching += 1;
      this.ring.push(received(message));
    }
    this.#came();
  }

  /** @param {Uint8Array} data */
  #accepts(data) {
    if (!this.filter) return true;
    if (data.length <= LARGEST) return this.filter.accepts(data);
    this.unread += 1;
    return false;
  }

  // -- sampling ------------------------------------------------------------------------------------

  /** True if a moment should have ended a while ago. */
  get #isLate() {
    return this.#now() - this.#momentBegan > MOMENT_MS + LATE_MS;
  }

  /** The timer does not come: messages keep the tab from it, or the tab is not seen, and browsers then slow timers down. */
  #onLate() {
    if (document.hidden) this.#onMoment();
    else this.#cut();
  }

  #cut() {
    if (this.#cutAt) return;
    this.#cutAt = this.#now();
    this.#lastCut = this.#cutAt;
    this.#end();
    void this.#drain();
  }

  /**
   * Wait for what was on its way when the subscriptions ended: the answer to a ping is behind it. To listen again before
   * that would pile up more than a slow tab ever reads.
   */
  async #drain() {
    this.#isDraining = true;
    try {
      await this.#link.roundTrip();
    } catch {
      // the connection is gone: its state is told by an event, and nothing is on its way any more
    }
    this.#isDraining = false;
  }

  /**
   * A moment is over. Of what it cut off some was on its way already: the connection has counted it, nobody took it.
   * How much was not even sent is an estimate.
   */
  #onMoment() {
    if (this.#lostAt || this.#isDraining) return;
    const now = this.#now();
    this.#mostMessages = this.#isLate && !document.hidden ? Math.max(FEWEST_MESSAGES, this.#mostMessages / 2) : Math.min(MOMENT_MESSAGES, this.#mostMessages + FEWEST_MESSAGES);
    const inNow = this.#link.stats.inMsgs;
    const arrived = inNow - this.#inBefore;
    this.#arrived = this.#arrived * KEPT + arrived;
    this.#listened = this.#listened * KEPT + (this.#cutAt || now) - this.#momentBegan;
    if (this.#cutAt) {
      this.skipped += Math.max(0, arrived - this.#momentCount) + Math.round((this.estimate * (now - this.#cutAt)) / 1_000);
      this.#cutAt = 0;
      this.#listen();
    }
    this.#inBefore = inNow;
    this.#momentBegan = now;
    this.#momentCount = this.#momentBytes = 0;
  }

  // -- gaps ----------------------------------------------------------------------------------------

  #onState() {
    if (!this.isRunning) return;
    if (this.#link.state === "reconnecting" && !this.#lostAt) this.#lostAt = Date.now();
    if (this.#link.state === "connected" && this.#lostAt) {
      const seconds = (Date.now() - this.#lostAt) / 1_000;
      const lost = this.estimate >= QUICK ? brief(this.estimate * seconds) : "";
      this.#lostAt = 0;
      this.#isDraining = false;
      this.#inBefore = this.#link.stats.inMsgs;
      this.#momentBegan = this.#now();
      if (this.#cutAt) this.#cutAt = this.#momentBegan;
      this.ring.pushNote(gapNote(duration(Math.round(seconds * 10) / 10 || 0.1), lost));
    }
    if (this.#link.state === "closed") this.stop();
    this.#came();
  }
}

/** @param {string} subject */
function isSystem(subject) {
  return subject.startsWith("$") || subject.startsWith("_INBOX.");
}
