/** What a consumer is doing, in a word, and what kind it is. */

import { text } from "../../text/consumers.js";
import { status } from "../../ui/blocks.js";

/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */

/**
 * The word for a consumer's state, and how it is toned.
 * @param {ConsumerInfo} info
 * @returns {[import("../../ui/blocks.js").Tone, string]}
 */
export function stateOf(info) {
  const most = info.config.max_ack_pending ?? 0;
  if (info.paused) return ["info", text.states.paused];
  if (!info.num_pending && !info.num_ack_pending) return ["good", text.states.idle];
  if (most > 0 && info.num_ack_pending >= most) return ["bad", text.states.full];
  if (info.config.deliver_subject && !info.push_bound) return ["warn", text.states.unbound];
  if (!info.config.deliver_subject && info.num_pending && !info.num_waiting) return ["warn", text.states.noPulls];
  return info.num_pending ? ["info", text.states.behind] : ["good", text.states.works];
}

/** @param {ConsumerInfo} info */
export function stateWord(info) {
  return status(...stateOf(info));
}

/** @param {ConsumerInfo} info */
export function kindOf({ config }) {
  return [config.deliver_subject ? text.kinds.push : text.kinds.pull, config.durable_name ? "" : text.kinds.ephemeral].filter(Boolean).join(", ");
}
