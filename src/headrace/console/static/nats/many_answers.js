/** One request with the answers of many, or with many answers of one: until there are enough, or silence. */

import { createInbox } from "../vendor/nats-core.js";
import { isNobody, translated } from "./answers.js";
import { NoAnswer, NobodyThere } from "./errors.js";

/** @typedef {import("../vendor/nats-core.js").NatsConnection} NatsConnection */
/** @typedef {import("../vendor/nats-core.js").Msg} Msg */
/** @typedef {import("./errors.js").NoRight} NoRight */

/**
 * @typedef {object} Gathering
 * @property {string} subject
 * @property {Uint8Array | string} body
 * @property {import("../vendor/nats-core.js").MsgHdrs} [headers]
 * @property {(message: Msg) => unknown} take says false when it has enough
 * @property {number} quiet the end: no answer came for so long, in ms
 * @property {number} timeout of the first answer, in ms
 * @property {number} expected the end: so many came; 0: not known
 * @property {AbortSignal} [signal]
 */

/**
 * Give each answer of a request to `take`. Raises: NoRight, NobodyThere, NoAnswer, what `take` raises.
 *
 * @param {NatsConnection} connection
 * @param {EventTarget} refusals tells by "denied" of what the server refused
 * @param {Gathering} gathering
 * @returns {Promise<void>}
 */
export function gather(connection, refusals, { subject, body, headers, take, quiet, timeout, expected, signal }) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return resolve();
    let heard = 0;
    let timer = setTimeout(() => end(heard ? null : new NoAnswer(subject, timeout)), timeout);
    const inbox = createInbox();
    /** @param {unknown} error */
    const end = (error) => {
      clearTimeout(timer);
      subscription.unsubscribe();
      refusals.removeEventListener("denied", denied);
      signal?.removeEventListener("abort", stop);
      if (error) reject(error);
      else resolve();
    };
    const stop = () => end(null);
    /** @param {Event} event */
    const denied = (event) => {
      const refusal = /** @type {CustomEvent<NoRight>} */ (event).detail;
      if (refusal.subject === subject || refusal.subject === inbox) end(refusal);
    };
    const subscription = connection.subscribe(inbox, {
      callback: (error, message) => {
        if (error) return end(translated(error, subject, timeout));
        if (isNobody(message)) return end(new NobodyThere(subject));
        heard += 1;
        clearTimeout(timer);
        timer = setTimeout(() => end(null), quiet);
        try {
          if (take(message) === false || heard === expected) end(null);
        } catch (problem) {
          end(problem);
        }
        return undefined;
      },
    });
    refusals.addEventListener("denied", denied);
    signal?.addEventListener("abort", stop);
    try {
      connection.publish(subject, body, { reply: inbox, headers });
    } catch (error) {
      end(translated(error, subject, timeout)); // it is larger than the server takes
    }
    return undefined;
  });
}
