/**
 * The filter of a tail: a text of the payload, or a condition on a value of its JSON, with the meaning that `--grep`
 * and `--where` of `headrace sub` have.
 */

import { readExactly } from "../../data/exact_json.js";

const CONDITION = /^([\w.\-$@]+)\s*(<=|>=|!=|=|<|>)\s*(.*)$/s;
/** Larger payloads are not looked into: the page would stand still meanwhile. */
export const LARGEST = 1_048_576;

/**
 * @typedef {object} Filter
 * @property {string} text as it was typed
 * @property {string[]} flags the flags of `headrace sub` that do the same
 * @property {(data: Uint8Array) => boolean} accepts
 */

const decoder = new TextDecoder();

/**
 * Read what a person typed. Text with a sign of comparison can be put between quotes.
 *
 * @param {string} typed
 * @returns {Filter | null} null for an empty one
 */
export function readFilter(typed) {
  const wanted = typed.trim();
  if (!wanted) return null;
  const quoted = /^"(.*)"$/s.exec(wanted);
  const condition = quoted ? null : CONDITION.exec(wanted);
  if (condition) return { text: typed, flags: ["--where", wanted], accepts: holding(condition[1].split("."), condition[2], condition[3]) };
  const text = quoted ? quoted[1] : wanted;
  return { text: typed, flags: ["--grep", text], accepts: (data) => decoder.decode(data).includes(text) };
}

/**
 * @param {string[]} path
 * @param {string} sign
 * @param {string} wanted
 * @returns {(data: Uint8Array) => boolean}
 */
function holding(path, sign, wanted) {
  return (data) => {
    const first = data.find((byte) => byte > 32);
    if (first !== 0x7b && first !== 0x5b) return false; // neither an object nor a list
    let document;
    try {
      document = readExactly(decoder.decode(data));
    } catch {
      return false; // what is no JSON has no value
    }
    return compare(valueAt(document, path), sign, wanted);
  };
}

/**
 * @param {unknown} document
 * @param {string[]} path
 */
function valueAt(document, path) {
  let found = document;
  for (const name of path) {
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return undefined;
    found = /** @type {Record<string, unknown>} */ (found)[name];
  }
  return found;
}

/**
 * @param {unknown} value
 * @param {string} sign
 * @param {string} wanted
 */
function compare(value, sign, wanted) {
  if (Array.isArray(value)) {
    const isThere = value.map(String).includes(wanted);
    return sign === "=" ? isThere : sign === "!=" && !isThere;
  }
  /** @type {[string | number | bigint, string | number | bigint] | null} */
  const pair = typeof value === "string" ? [value, wanted]
    : typeof value === "boolean" || value === null ? [String(value), wanted]
    : typeof value === "bigint" && /^-?\d+$/.test(wanted.trim()) ? [value, BigInt(wanted)]
    : (typeof value === "number" || typeof value === "bigint") && wanted.trim() && Number.isFinite(Number(wanted)) ? [value, Number(wanted)]
    : null;
  if (!pair) return sign === "!=";
  const [left, right] = pair;
  switch (sign) {
    case "=": return left === right;
    case "!=": return left !== right;
    case "<": return left < right;
    case "<=": return left <= right;
    case ">": return left > right;
    default: return left >= right;
  }
}
