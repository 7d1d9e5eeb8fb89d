/** Times as people type them: a moment, or how long ago. */

import { asDate, readDurationNs } from "../../format.js";

/**
 * The moment that a person typed: a time, or how long ago; null where it is none.
 * @param {string} typed
 */
export function momentOf(typed) {
  const ns = readDurationNs(typed.replace(/^-/, ""));
  if (ns !== null) return new Date(Date.now() - ns / 1e6);
  return /\d{4}-\d\d-\d\d/.test(typed) ? asDate(typed.trim().replace(" ", "T")) : null;
}
