/** The lag of one consumer over time, and when it is one that grows. Never here: who asks for it (growing_lag.js). */

/** @typedef {{ time: number, pending: number }} Sample time in ms */

/** A lag that grew all this time is a finding. */
export const GROWS_MS = 5 * 60_000;
/** So many samples are kept; the first one stays, so that it is known how long the lag grows. */
const MOST = 60;

export class LagHistory {
  /** @type {Sample[]} */
  samples = [];

  /**
   * @param {number} time ms
   * @param {number} pending
   */
  add(time, pending) {
    const last = this.samples.at(-1);
    if (last && pending < last.pending) this.samples = [];
    this.samples.push({ time, pending });
    if (this.samples.length > MOST) this.samples.splice(1, 1);
  }

  /** True if it never fell for five minutes, and is higher than it was five minutes ago. */
  get isGrowing() {
    const [first, last] = [this.samples[0], this.samples.at(-1)];
    return Boolean(last && last.time - first.time >= GROWS_MS && last.pending > first.pending && last.pending > (this.#before(last.time - GROWS_MS)?.pending ?? 0));
  }

  /** The lag of five minutes ago, and of now. @returns {[number, number]} */
  get growth() {
    const last = /** @type {Sample} */ (this.samples.at(-1));
    return [this.#before(last.time - GROWS_MS)?.pending ?? 0, last.pending];
  }

  /** @param {number} time */
  #before(time) {
    return this.samples.findLast((sample) => sample.time <= time);
  }
}
