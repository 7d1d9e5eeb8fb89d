/** Values over time that a page has seen, and rates, which are differences made in the browser. */

/** So many points are kept: six hours at one every two seconds. */
const MOST = 10_800;

/** Values of several names at the same times, oldest first. */
export class Series {
  /** Seconds since 1970. @type {number[]} */
  times = [];
  /** @type {Record<string, (number | null)[]>} */
  values = {};

  /** @param {string[]} names */
  constructor(names) {
    for (const name of names) this.values[name] = [];
  }

  /**
   * @param {number} time seconds since 1970
   * @param {Record<string, number | null>} values
   */
  add(time, values) {
    if (this.times.length && time <= this.times[this.times.length - 1]) return;
    this.times.push(time);
    for (const [name, list] of Object.entries(this.values)) list.push(values[name] ?? null);
    if (this.times.length > MOST) {
      this.times.shift();
      for (const list of Object.values(this.values)) list.shift();
    }
  }

  /** @param {string} name */
  last(name) {
    const list = this.values[name];
    return list.length ? list[list.length - 1] : null;
  }

  /**
   * The values of the last seconds, as columns: times, then a column for each name.
   * @param {string[]} names
   * @param {number} seconds
   * @returns {[number[], ...(number | null)[][]]}
   */
  window(names, seconds) {
    const since = (this.times[this.times.length - 1] ?? 0) - seconds;
    let first = this.times.findIndex((time) => time >= since);
    if (first < 0) first = this.times.length;
    return [this.times.slice(first), ...names.map((name) => this.values[name].slice(first))];
  }
}

/** Differences of counters by the second. A counter that fell began anew: its rate is not known once. */
export class Rates {
  /** @type {Map<string, { time: number, values: Record<string, number> }>} */
  #before = new Map();

  /**
   * The rates of the counters of something since it was last seen, or null the first time.
   *
   * @param {string} key what has the counters: a server, a connection
   * @param {number} time seconds
   * @param {Record<string, number>} values
   * @returns {Record<string, number> | null}
   */
  of(key, time, values) {
    const before = this.#before.get(key);
    if (before && time <= before.time) return null;
    this.#before.set(key, { time, values });
    if (!before) return null;
    /** @type {Record<string, number>} */
    const rates = {};
    for (const [name, value] of Object.entries(values)) {
      const step = value - (before.values[name] ?? 0);
      if (step < 0) return null;
      rates[name] = step / (time - before.time);
    }
    return rates;
  }

  /**
   * Forget what is not among the keys any more.
   * @param {Set<string>} keys
   */
  keep(keys) {
    for (const key of this.#before.keys()) if (!keys.has(key)) this.#before.delete(key);
  }
}
