/**
 * How far behind a consumer is, as time: the age of the first message of its stream that is not done, which is one
 * read beside the consumer. It is read again only when the consumer has come further.
 */

import { asDate } from "../format.js";
import { storedMessage } from "../nats/stored.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../nats/jetstream.js").StreamConfig} StreamConfig */

/** Of a consumer with more filters the lag is not read: each is a request. */
const MOST_FILTERS = 16;

/** The subjects that a consumer gets; none: all. @param {import("../nats/jetstream.js").ConsumerConfig} config @returns {string[]} */
export function filtersOf(config) {
  return config.filter_subjects?.length ? config.filter_subjects : config.filter_subject ? [config.filter_subject] : [];
}

export class LagReader {
  /** @param {Link} link */
  constructor(link) {
    this.#link = link;
  }

  /** @type {Link} */
  #link;
  /** The time of the first undone message, in ms, by consumer; with the sequence behind which it was looked for. @type {Map<string, { behind: number, time: number | null }>} */
  #known = new Map();

  /**
   * The lag of a consumer in seconds: 0 where all is done, null where it is not known. Raises: as Link.ask.
   *
   * @param {ConsumerInfo} info
   * @param {StreamConfig} stream
   * @returns {Promise<number | null>}
   */
  async of(info, stream) {
    if (!info.num_pending && !info.num_ack_pending) return 0;
    const key = `${info.stream_name}/${info.name}`;
    const behind = info.ack_floor.stream_seq;
    const known = this.#known.get(key);
    const time = known && known.behind === behind && known.time !== null ? known.time : await this.#firstAfter(behind, filtersOf(info.config), stream);
    this.#known.set(key, { behind, time });
    return time === null ? null : Math.max(0, (Date.now() - time) / 1_000);
  }

  /**
   * @param {number} sequence
   * @param {string[]} filters
   * @param {StreamConfig} stream
   */
  async #firstAfter(sequence, filters, stream) {
    if (filters.length > MOST_FILTERS) return null;
    const wanted = filters.length ? filters : [">"];
    const found = await Promise.all(wanted.map((subject) => storedMessage(this.#link, stream, { seq: sequence + 1, next_by_subj: subject })));
    const first = found.filter((one) => one !== null).sort((a, b) => a.sequence - b.sequence)[0];
    return asDate(first?.time)?.getTime() ?? null;
  }
}
