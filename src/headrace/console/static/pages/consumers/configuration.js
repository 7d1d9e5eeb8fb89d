/** The configuration of a consumer in words. */

import { filtersOf } from "../../data/consumer_lag.js";
import { foreign } from "../../dom/element.js";
import { count, durationNs } from "../../format.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/consumers.js";
import { facts } from "../../ui/blocks.js";

/** @param {import("../../nats/jetstream.js").ConsumerConfig} config */
export function configurationFacts(config) {
  const names = text.config;
  const word = (/** @type {[string, string][]} */ words, /** @type {string | undefined} */ key) => words.find(([one]) => one === key)?.[1] ?? key ?? "–";
  const most = (/** @type {number | undefined} */ value) => (value !== undefined && value > 0 ? count(value) : common.unlimited);
  const start = config.opt_start_seq ?? config.opt_start_time;
  const isAcked = config.ack_policy !== "none";
  return facts([
    [names.description, config.description ? foreign(config.description) : undefined],
    [text.facts.filter, filtersOf(config).length ? foreign(filtersOf(config).join(", "), "mono") : undefined],
    [names.deliver, start === undefined ? word(text.form.delivers, config.deliver_policy) : foreign(`${word(text.form.delivers, config.deliver_policy)}: ${start}`)],
    [names.ack, word(text.form.acks, config.ack_policy)],
    [names.wait, isAcked && config.ack_wait ? durationNs(config.ack_wait) : undefined],
    [names.backoff, config.backoff?.length ? config.backoff.map((/** @type {number} */ ns) => durationNs(ns)).join(", ") : undefined],
    [names.maxDeliver, isAcked ? most(config.max_deliver) : undefined],
    [names.maxPending, isAcked ? most(config.max_ack_pending) : undefined],
    [text.facts.perSubject, config.metadata?.["headrace.max_ack_pending_per_subject"]],
    [names.target, config.deliver_subject ? foreign(config.deliver_subject, "mono") : undefined],
    [names.group, config.deliver_group ? foreign(config.deliver_group, "mono") : undefined],
    [names.maxWaiting, config.deliver_subject ? undefined : most(config.max_waiting)],
    [names.policy, config.priority_policy && config.priority_policy !== "none" ? foreign(`${config.priority_policy}: ${(config.priority_groups ?? []).join(", ")}`) : undefined],
    [names.rateLimit, config.rate_limit_bps ? count(config.rate_limit_bps) : undefined],
    [names.replay, config.replay_policy],
    [names.headersOnly, config.headers_only ? text.yes : undefined],
    [names.inactive, config.inactive_threshold ? durationNs(config.inactive_threshold) : undefined],
    [names.replicas, config.num_replicas ? count(config.num_replicas) : text.asStream],
    [names.memory, config.mem_storage ? text.yes : undefined],
  ]);
}
