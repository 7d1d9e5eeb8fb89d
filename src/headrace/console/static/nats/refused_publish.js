/** A message of which the sender hears whether the server refused it: NATS itself says nothing to who publishes. */

import { translated } from "./answers.js";

/** @typedef {import("../vendor/nats-core.js").NatsConnection} NatsConnection */
/** @typedef {import("../vendor/nats-core.js").MsgHdrs} MsgHdrs */
/** @typedef {import("./errors.js").NoRight} NoRight */

/**
 * Publish; done when the server has it. Raises: NoRight, and what a connection raises.
 *
 * @param {NatsConnection} connection
 * @param {EventTarget} refusals tells by "denied" of what the server refused
 * @param {string} subject
 * @param {Uint8Array | string} body
 * @param {{ reply?: string, headers?: MsgHdrs }} options
 * @param {number} timeout in ms, for words of an error
 */
export async function publishOrRefuse(connection, refusals, subject, body, options, timeout) {
  /** @type {NoRight | undefined} */
  let refusal;
  /** @param {Event} event */
  const denied = (event) => {
    const found = /** @type {CustomEvent<NoRight>} */ (event).detail;
    if (found.subject === subject) refusal = found;
  };
  refusals.addEventListener("denied", denied);
  try {
    connection.publish(subject, body, options);
    await connection.flush();
    await nextTurn(); // the refusal came before the answer to the flush, but is told through an iterator
  } catch (error) {
    throw translated(error, subject, timeout);
  } finally {
    refusals.removeEventListener("denied", denied);
  }
  if (refusal) throw refusal;
}

/** Done when everything that waits now has run. A timer would be slow in a tab that is not seen. @returns {Promise<void>} */
function nextTurn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
