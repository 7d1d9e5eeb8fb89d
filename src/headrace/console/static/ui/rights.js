/** Why an action is greyed out. */

import { mayPublish } from "../nats/rights.js";
import { text } from "../text/buckets.js";

/**
 * The reason why a request would be refused, or "" where nothing says that it would.
 *
 * @param {import("../nats/link.js").Link} link
 * @param {...string} subjects all that the action publishes to
 */
export function whyNot(link, ...subjects) {
  const forbidden = subjects.find((subject) => !mayPublish(link, subject));
  return forbidden === undefined ? "" : text.mayNot(forbidden);
}
