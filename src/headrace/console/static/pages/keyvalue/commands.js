/** Commands that do the same as the page. */

import { shellWord } from "../../ui/blocks.js";

/**
 * The words of a command about a key.
 *
 * @param {string} verb
 * @param {string} bucket
 * @param {string} key
 */
export function keyCommand(verb, bucket, key) {
  return `headrace kv ${verb} ${shellWord(bucket)} ${shellWord(key)}`;
}
