/**
 * What a user may publish and subscribe to, by what the server said of the user ($SYS.REQ.USER.INFO). A server that
 * does not say it leaves it open: the request then is refused, or not.
 */

import { covers } from "./subjects.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Rights} Rights */

/**
 * @param {Link} link
 * @param {string} subject
 */
export function mayPublish(link, subject) {
  return isAllowed(link.who.permissions?.publish, subject);
}

/**
 * @param {Link} link
 * @param {string} pattern
 */
export function maySubscribe(link, pattern) {
  return isAllowed(link.who.permissions?.subscribe, pattern);
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
 */
function isAllowed(rights, subject) {
  if (!rights) return true;
  if (rights.deny?.some((pattern) => covers(pattern, subject))) return false;
  return !rights.allow?.length || rights.allow.some((pattern) => covers(pattern.split(" ")[0], subject));
}
