/**
 * Consumers whose lag grows: asked for twice a minute of the streams that have consumers, as many as are quick to ask.
 */

import { consumers } from "../nats/consumers.js";
import { streams } from "../nats/jetstream.js";
import { LagHistory } from "./lag_history.js";
import { poll } from "./poll.js";

/** @typedef {import("../nats/link.js").Link} Link */

const EVERY_MS = 30_000;
/** So many streams are looked at, those with the most messages. */
export const MOST_STREAMS = 20;

export class GrowingLag {
  /** @type {Map<string, LagHistory>} */
  #histories = new Map();

  /**
   * Look at the consumers of an account until the signal is aborted.
   *
   * @param {Link} link
   * @param {AbortSignal} signal
   * @param {() => void} looked
   */
  follow(link, signal, looked) {
    poll({ every: EVERY_MS, signal, ask: () => this.#look(link, signal), show: looked });
  }

  clear() {
    this.#histories.clear();
  }

  /** The consumers whose lag grows, with what waited five minutes ago and what waits now. */
  get growing() {
    return [...this.#histories].filter(([, history]) => history.isGrowing).map(([key, history]) => {
      const [stream, consumer] = JSON.parse(key);
      const [before, now] = history.growth;
      return { stream, consumer, before, now };
    });
  }

  /**
   * @param {Link} link
   * @param {AbortSignal} signal
   */
  async #look(link, signal) {
    const seen = new Set();
    const asked = ((await streams(link)).streams ?? []).filter((one) => one.state.consumer_count).sort((a, b) => b.state.messages - a.state.messages).slice(0, MOST_STREAMS);
    for (const { config } of asked) {
      if (signal.aborted) return;
      const answer = await consumers(link, config.name);
      for (const one of answer.consumers ?? []) {
        const key = JSON.stringify([config.name, one.name]);
        seen.add(key);
        const history = this.#histories.get(key) ?? new LagHistory();
        this.#histories.set(key, history);
        history.add(Date.now(), one.num_pending);
      }
    }
    for (const key of this.#histories.keys()) if (!seen.has(key)) this.#histories.delete(key);
  }
}
