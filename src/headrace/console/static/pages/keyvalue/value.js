/** Values as text: which can be, how they are checked and cut. */

/** A longer value is not edited in the page. */
export const LONGEST_EDITED = 262_144;

/**
 * The text of a value, or null where it is none or too long to be edited.
 * @param {Uint8Array} value
 */
export function textOf(value) {
  if (value.length > LONGEST_EDITED) return null;
  try {
    const found = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
    return found.includes("\u0000") ? null : found;
  } catch {
    return null;
  }
}

/** @param {string} value */
export function bytesOf(value) {
  return new TextEncoder().encode(value);
}

/**
 * What is wrong with a text as JSON, or "".
 * @param {string} value
 */
export function jsonProblem(value) {
  try {
    JSON.parse(value);
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

/** True if a text is an object or a list of JSON, so that it is to stay one. @param {string} value */
export function isJson(value) {
  return /^\s*[[{]/.test(value) && !jsonProblem(value);
}

/**
 * The most bytes that a value may have.
 * @param {import("../../nats/keyvalue.js").Bucket} bucket
 */
export function mostOf(bucket) {
  const { max_msg_size: most = -1 } = bucket.config;
  const ofServer = bucket.link.server.max_payload;
  return most > 0 ? Math.min(most, ofServer) : ofServer;
}
