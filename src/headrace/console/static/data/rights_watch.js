/**
 * The rights of a user while a tab is open. A server that reloads its configuration changes the rights of connections
 * that stay, and tells nobody: so it is asked now and then, and after each refusal.
 */

import { USER_INFO } from "../nats/rights.js";
import { poll } from "./poll.js";

/** @typedef {import("../nats/link.js").Link} Link */

/** What a user may do is asked for so often, in ms. */
const OFTEN = 30_000;
/** A server that does not tell it, or not this user, writes each question into its log: it is asked this seldom, in ms. */
const SELDOM = 600_000;

/**
 * Keep what is known of a link's rights fresh, until it is closed; the link tells of a change by "rights".
 * @param {Link} link
 */
export function watchRights(link) {
  const end = new AbortController();
  let isTold = true;
  const ask = async () => (isTold = await link.learnRights());
  const again = poll({ every: () => (isTold ? OFTEN : SELDOM), signal: end.signal, ask, show: () => {} });
  link.addEventListener("denied", (event) => {
    if (isTold && /** @type {CustomEvent<{ subject: string }>} */ (event).detail.subject !== USER_INFO) again();
  }, { signal: end.signal });
  link.addEventListener("state", () => {
    if (link.state === "closed") end.abort();
  }, { signal: end.signal });
}
