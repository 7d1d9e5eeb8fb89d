/**
 * What a user may publish to, by what the server said of the user ($SYS.REQ.USER.INFO). A server that
 * does not say it leaves it open: the request then is refused, or not.
 */

import { covers, overlaps } from "./subjects.js";

/** @typedef {import("./link.js").Link} Link */

/** Where a server says who asks, in which account, and with which rights. */
export const USER_INFO = "$SYS.REQ.USER.INFO";

/**
 * True if a user may publish to a subject, or to some subject of a pattern.
 *
 * @param {Link} link
 * @param {string} subject
 */
export function mayPublish(link, subject) {
  const { allow, deny } = link.who.permissions?.publish ?? {};
  if (deny?.some((pattern) => covers(pattern, subject))) return false;
  return !allow?.length || allow.some((pattern) => overlaps(pattern, subject));
}

/**
 * True if a user may publish to more than the server's own subjects.
 * @param {Link} link
 */
export function mayPublishAnything(link) {
  const { allow, deny } = link.who.permissions?.publish ?? {};
  if (deny?.includes(">")) return false;
  return !allow?.length || allow.some((pattern) => !/^[$_]/.test(pattern));
}
