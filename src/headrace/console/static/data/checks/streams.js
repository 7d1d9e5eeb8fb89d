/** Checks of streams and consumers. Texts are in text/findings.js. */

import { asDate, bytes, count, duration, durationNs } from "../../format.js";
import { to } from "../../app.js";
import { found as words } from "../../text/findings.js";

/** @typedef {import("../evidence.js").Evidence} Evidence */
/** @typedef {Evidence["streams"][number]} Place */
/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../findings.js").Check} Check */
/** @typedef {import("../findings.js").Symptom} Symptom */

/** The share of a stream's limit from which on it is nearly reached. */
const FULL = 0.9;
/** A consumer with messages waiting that nobody reads for so long, ms. */
const IDLE_MS = 3_600_000;
/** A source that says nothing for so long is lost, ns. */
const STILL_NS = 60e9;
const OF_MQTT = "$MQTT_";
const LIMITS = ["max_msgs", "max_bytes", "max_age", "max_msgs_per_subject"];

/** @type {Check[]} */
export const streamChecks = [
  { id: "replica-lost", severity: "danger", look: lostReplicas },
  { id: "stream-without-limits", severity: "warning", look: endless },
  { id: "stream-nearly-full", severity: "warning", look: full },
  { id: "source-lost", severity: "warning", look: lostSources },
  { id: "consumer-unread", severity: "warning", look: unread },
  { id: "redelivered-for-ever", severity: "warning", look: again },
  { id: "consumer-blocked", severity: "warning", look: blocked },
  { id: "single-copy", severity: "hint", look: singleCopies },
];

/**
 * @param {Place} place
 * @param {string} text
 * @returns {Symptom}
 */
function symptom({ account, stream }, text) {
  return { place: words.ofAccount(account, words.stream(stream.name)), words: text, href: to("streams", [stream.name]), account };
}

/**
 * @param {Evidence} evidence
 * @param {(consumer: ConsumerInfo, now: number) => string | null} look
 * @returns {Symptom[]}
 */
function ofConsumers({ streams, now }, look) {
  return streams.flatMap(({ account, stream }) =>
    (stream.consumer_detail ?? []).flatMap((consumer) => {
      const text = look(consumer, asDate(consumer.ts)?.getTime() ?? now);
      return text ? [{ place: words.ofAccount(account, words.consumer(stream.name, consumer.name)), words: text, href: to("consumers", [stream.name, consumer.name]), account }] : [];
    }),
  );
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function lostReplicas({ streams }) {
  return streams.flatMap((place) => {
    const { leader, replicas = [] } = place.stream.cluster ?? {};
    const away = replicas.filter((one) => one.offline || !one.current).map((one) => one.name);
    return [...(away.length ? [symptom(place, words.notCurrent(away.join(", ")))] : []), ...(replicas.length && !leader ? [symptom(place, words.noLeader)] : [])];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function endless({ streams }) {
  return streams.flatMap((place) => {
    const { config, state } = place.stream;
    if (place.stream.name.startsWith(OF_MQTT)) return []; // what sessions wait for, which is said of their consumers
    if (!config || config.sealed || LIMITS.some((name) => config[name] > 0)) return [];
    return [symptom(place, words.endless(count(state.messages), bytes(state.bytes)))];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function full({ streams }) {
  return streams.flatMap((place) => {
    const { config, state } = place.stream;
    if (config?.discard !== "new") return [];
    const { max_msgs = -1, max_bytes = -1 } = config;
    return [
      ...(max_msgs > 0 && state.messages >= max_msgs * FULL ? [symptom(place, words.messages(count(state.messages), count(max_msgs)))] : []),
      ...(max_bytes > 0 && state.bytes >= max_bytes * FULL ? [symptom(place, words.bytes(bytes(state.bytes), bytes(max_bytes)))] : []),
    ];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function lostSources({ streams }) {
  return streams.flatMap((place) =>
    [...(place.stream.mirror ? [place.stream.mirror] : []), ...(place.stream.sources ?? [])].flatMap((source) => {
      if (source.error) return [symptom(place, words.source(source.name, source.error.description ?? String(source.error)))];
      if (source.active < 0) return [symptom(place, words.neverAnswered(source.name))];
      return source.active > STILL_NS && source.lag > 0 ? [symptom(place, words.still(source.name, count(source.lag), durationNs(source.active)))] : [];
    }),
  );
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function unread(evidence) {
  return ofConsumers(evidence, (consumer, now) => {
    const waiting = (consumer.num_pending ?? 0) + (consumer.num_ack_pending ?? 0);
    if (!waiting || consumer.num_waiting || consumer.push_bound || consumer.paused) return null;
    const last = Math.max(...[consumer.delivered?.last_active, consumer.ack_floor?.last_active, consumer.created].map((told) => asDate(told)?.getTime() ?? 0));
    return now - last > IDLE_MS ? words.unread(count(waiting), duration(Math.floor((now - last) / 1_000))) : null;
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function again(evidence) {
  return ofConsumers(evidence, (consumer) =>
    consumer.num_redelivered && (consumer.config?.max_deliver ?? -1) < 1 && consumer.config?.ack_policy !== "none" ? words.again(count(consumer.num_redelivered)) : null,
  );
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function blocked(evidence) {
  return ofConsumers(evidence, (consumer) => {
    const most = consumer.config?.max_ack_pending ?? -1;
    return most > 0 && consumer.num_ack_pending >= most && consumer.num_pending ? words.blocked(count(consumer.num_ack_pending), count(most), count(consumer.num_pending)) : null;
  });
}

/**
 * Streams of one copy in a cluster of nats-servers that could keep three.
 * @param {Evidence} evidence
 * @returns {Symptom[]}
 */
function singleCopies({ servers, streams }) {
  if (servers.filter((server) => !server.isHeadrace && server.varz.jetstream?.config).length < 3) return [];
  return streams.filter(({ stream }) => (stream.config?.num_replicas ?? 1) === 1 && stream.config?.storage === "file").map((place) => symptom(place, words.single));
}
