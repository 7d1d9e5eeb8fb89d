/** What is said of answers that no table shows. */

import { count } from "../../format.js";
import { MOST_INSTANCES } from "../../nats/services.js";
import { text } from "../../text/services.js";
import { status } from "../../ui/blocks.js";

/**
 * Notes on answers that could not be read, and on more instances than are taken.
 *
 * @param {number} strange
 * @param {number} found
 */
export function told(strange, found) {
  return [strange > 0 && status("warn", text.strange(count(strange))), found >= MOST_INSTANCES && status("warn", text.most(count(MOST_INSTANCES)))];
}
