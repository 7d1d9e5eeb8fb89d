/** Whether an action on streams would be refused, with the reason that its button shows. */

import { mayPublish } from "../../nats/rights.js";
import { text } from "../../text/streams.js";

/** @typedef {import("../../nats/link.js").Link} Link */

/**
 * The reason why the user may not make a request of JetStream's API, or "".
 *
 * @param {Link} link
 * @param {string} request such as STREAM.PURGE
 * @param {...string} names the stream, the consumer
 */
export function forbidden(link, request, ...names) {
  const subject = ["$JS.API", request, ...names].join(".");
  return mayPublish(link, subject) ? "" : text.noRight(subject);
}
