/**
 * What a user may publish and subscribe to, by what the server said of the user ($SYS.REQ.USER.INFO). A server that
 * does not say it leaves it open: the request then is refused, or not.
 */

import { covers, overlaps } from "./subjects.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Rights} Rights */

/**
 * True if a user may publish to a subject, or to some subject of a pattern.
 *
 * @param {Link} link
 * @param {string} subject
 */
export function mayPublish(link, subject) {
  return isAllowed(link.who.permissions?.publish, subject, overlaps);
}

/**
 * @param {Link} link
 * @param {string} pattern
 */
export function maySubscribe(link, pattern) {
  return isAllowed(link.who.permissions?.subscribe, pattern, covers);
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

/**
 * An entry of subscriptions may have a queue group behind a space: it allows, or denies, that group alone.
 *
 * @param {Rights | undefined} rights
 * @param {string} subject
 * @param {(pattern: string, subject: string) => boolean} suffices
 */
function isAllowed(rights, subject, suffices) {
  if (!rights) return true;
  if (rights.deny?.some((pattern) => covers(pattern, subject))) return false;
  return !rights.allow?.length || rights.allow.some((pattern) => suffices(pattern.split(" ")[0], subject));
}
