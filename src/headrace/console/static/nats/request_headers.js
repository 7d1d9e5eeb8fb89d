/** The headers that requests of a console have. */

import { headers } from "../vendor/nats-core.js";

/** @typedef {Record<string, string | string[]>} HeaderValues */

/** The header that says to servers that a request comes from a console, for logs and audit advisories. */
const CONSOLE_HEADER = "Headrace-Console";
const OWN = /^\$(SYS\.|JS\.API\.)/;

/**
 * The headers of a request. The servers' own subjects are those of the system and of JetStream's API; a message of a
 * person to others, buckets among them, has the headers that the person gave it, and no more: it may be stored.
 *
 * @param {string} subject
 * @param {string} sender who asks
 * @param {HeaderValues} lines
 */
export function requestHeaders(subject, sender, lines) {
  const made = headers();
  if (OWN.test(subject)) made.set(CONSOLE_HEADER, sender);
  for (const [name, values] of Object.entries(lines)) for (const value of [values].flat()) made.append(name, value);
  return made.keys().length ? made : undefined;
}
