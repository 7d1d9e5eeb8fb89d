/**
 * Stored messages backwards: the newest that are older than a sequence. Servers give messages forwards only, so the
 * place to read from is searched for, in steps that double, then halve: a stream with gaps or with a rare subject
 * costs some twenty requests, not one for each sequence.
 */

import { readForward } from "../nats/stored.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../nats/jetstream.js").StoredMessage} StoredMessage */

/** A page of messages has about so many bytes at most. */
const PAGE_BYTES = 8 * 1_048_576;

/**
 * How many messages a page has: fewer, where they are large.
 * @param {{ messages: number, bytes: number }} state
 * @param {number} [most]
 */
export function pageSize(state, most = 50) {
  const mean = state.messages ? state.bytes / state.messages : 0;
  return Math.max(5, Math.min(most, Math.floor(PAGE_BYTES / Math.max(1, mean))));
}

/**
 * Read the last `count` messages with sequences in [first, before), newest first.
 *
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ before: number, first: number, count: number, subject?: string, signal?: AbortSignal }} options
 * @returns {Promise<StoredMessage[]>} fewer than `count` only where there are no more
 */
export async function readBackward(link, config, { before, first, count, subject, signal }) {
  const most = 4 * count;
  let low = first; // from here on there may be too many
  let high = before; // from here on there are too few
  let from = Math.max(first, before - count);
  while (before > first && !signal?.aborted) {
    const { found, isWhole } = await readRange(link, config, { from, before, most, subject, signal });
    if (isWhole && (found.length >= count || from <= first || from <= low)) return found.slice(-count).reverse();
    if (isWhole) {
      high = from;
      from = low > first ? Math.floor((low + high) / 2) : Math.max(first, before - 4 * (before - from));
    } else {
      low = from + 1;
      from = Math.max(low, Math.floor((low + high) / 2));
    }
  }
  return [];
}

/**
 * Messages with sequences in [from, before) in ascending order, up to `most`; `isWhole`: these are all.
 *
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ from: number, before: number, most: number, subject?: string, signal?: AbortSignal }} options
 * @returns {Promise<{ found: StoredMessage[], isWhole: boolean }>}
 */
export async function readRange(link, config, { from, before, most, subject, signal }) {
  const found = /** @type {StoredMessage[]} */ ([]);
  let next = from;
  let isWhole = next >= before;
  while (!isWhole && found.length <= most && !signal?.aborted) {
    let came = 0;
    const isEnd = await readForward(link, config, {
      from: next, subject, count: Math.min(256, most + 1 - found.length + 1), signal,
      take: (message) => {
        came += 1;
        if (message.sequence >= before) {
          isWhole = true;
          return false;
        }
        found.push(message);
        next = message.sequence + 1;
        return true;
      },
    });
    if (isEnd || next >= before) isWhole = true;
    else if (!came) break;
  }
  if (found.length > most) return { found, isWhole: false };
  return { found, isWhole };
}
