/**
 * JSON of others with its numbers as they were written: JavaScript's own are exact up to 2^53, and an id or a time in
 * nanoseconds is often larger.
 */

/** A number with so many digits may be another one once JavaScript has read it. */
const LONG = /\d{16}/;

/** @typedef {(key: string, value: unknown, context?: { source?: string }) => unknown} Reviver */

/**
 * Read JSON; a whole number that JavaScript would round becomes a bigint. A browser that does not tell how a number
 * was written gives it rounded. Raises: SyntaxError.
 *
 * @param {string} text
 * @returns {unknown}
 */
export function readExactly(text) {
  return LONG.test(text) ? JSON.parse(text, /** @type {any} */ (exactly)) : JSON.parse(text);
}

/** @type {Reviver} */
function exactly(_key, value, context) {
  const written = context?.source;
  return typeof value === "number" && written !== undefined && !Number.isSafeInteger(value) && /^-?\d+$/.test(written) ? BigInt(written) : value;
}

/**
 * A text of JSON with each value in a line of its own, and every number as it was. The text itself where a browser
 * would round a number of it. Raises: SyntaxError.
 *
 * @param {string} text
 */
export function indented(text) {
  const raw = /** @type {{ rawJSON?: (text: string) => unknown }} */ (/** @type {unknown} */ (JSON)).rawJSON;
  if (!raw) return LONG.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2);
  /** @type {Reviver} */
  const asWritten = (_key, value, context) => (typeof value === "number" && context?.source !== undefined ? raw(context.source) : value);
  return JSON.stringify(JSON.parse(text, /** @type {any} */ (asWritten)), null, 2);
}
