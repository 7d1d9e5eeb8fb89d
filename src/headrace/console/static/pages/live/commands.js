/** What the live page does, as commands of `headrace`. */

import { shellWord } from "../../ui/blocks.js";

/** @typedef {import("../../nats/messages.js").HeaderLines} HeaderLines */
/** @typedef {import("./filter.js").Filter} Filter */

/** Payloads that are longer are not put into a command. */
const LONGEST = 2_000;

/**
 * @param {string[]} patterns
 * @param {{ queue: string, filter: Filter | null }} options
 */
export function subCommand(patterns, { queue, filter }) {
  return words("headrace", "sub", ...patterns, ...(queue ? ["--queue", queue] : []), ...(filter?.flags ?? []));
}

/**
 * @param {"pub" | "request" | "trace"} verb
 * @param {{ subject: string, text: string | null, headers: HeaderLines, reply?: string }} draft `text`: null where the payload is no text
 * @param {...string} flags
 */
export function sendCommand(verb, { subject, text, headers, reply }, ...flags) {
  const body = text === null || text.length > LONGEST ? ["-"] : text || verb === "pub" ? [text] : [];
  const lines = headers.flatMap(([name, value]) => ["-H", `${name}:${value}`]);
  return words("headrace", verb, subject || "SUBJECT", ...body, ...(reply ? ["--reply", reply] : []), ...lines, ...flags) + (body[0] === "-" ? " < payload" : "");
}

/** @param {...string} parts */
function words(...parts) {
  return parts.map((part) => shellWord(part)).join(" ");
}
