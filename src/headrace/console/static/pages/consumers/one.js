/** One consumer: how far it is and how far behind, what it does over time, its configuration; and what can be done to it. */

import { to } from "../../app.js";
import { LagReader, filtersOf } from "../../data/consumer_lag.js";
import { KEPT, OFTEN, poll } from "../../data/poll.js";
import { Rates, Series } from "../../data/series.js";
import { foreign, h, replace, visible } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { count, duration, rate } from "../../format.js";
import { consumerInfo } from "../../nats/consumers.js";
import { NoRight, NobodyThere, Refused } from "../../nats/errors.js";
import { streamInfo, streamOf } from "../../nats/jetstream.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/consumers.js";
import { ago, button, card, copy, facts, figure, figures, linkButton, onCommandLine, pageHead, shellWord, tag, when } from "../../ui/blocks.js";
import { Chart } from "../../ui/chart.js";
import { empty, failure } from "../../ui/empty.js";
import { jsonTree } from "../../ui/payload.js";
import { wrongName } from "../streams/values.js";
import { consumerActions } from "./actions.js";
import { configurationFacts } from "./configuration.js";
import { kindOf, stateWord } from "./state.js";

/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */

/** The chart shows so many seconds. */
const WINDOW_S = 600;
export const DEAD_LETTERS = "headrace.dead_letter_subject";

/** @param {import("../index.js").Place} place */
export function showConsumer(place) {
  void useStyles("streams");
  const { host, app, signal } = place;
  const link = /** @type {import("../../nats/link.js").Link} */ (app.account);
  const [streamName, name] = place.path;
  const head = h("div", { class: "stack" });
  const top = h("div");
  const state = h("div", { class: "body" });
  const configuration = h("div", { class: "stack" });
  const chart = new Chart({
    label: text.chart, lines: [{ name: "delivered", label: text.rateLine }, { name: "acked", label: text.ackLine }], shown: rate, signal,
  });
  const body = h("div", { class: "stack" }, top, h("div", { class: "grid" }, card(text.chart, { flush: true }, chart.element), h("section", { class: "card" }, h("header", {}, h("h2", {}, text.state)), state)), configuration);
  const rates = new Rates();
  const series = new Series(["delivered", "acked"]);
  const lags = new LagReader(link);
  /** @type {StreamConfig | null} */
  let stream = null;
  let shownHead = "";
  let shownConfig = "";
  let deadStream = /** @type {string | null | undefined} */ (undefined);

  const ask = async () => {
    stream ??= (await streamInfo(link, streamName)).config;
    const info = await consumerInfo(link, streamName, name);
    const dead = info.config.metadata?.[DEAD_LETTERS];
    if (dead && deadStream === undefined) deadStream = await allowed(streamOf(link, dead));
    return /** @type {const} */ ([info, stream, await allowed(lags.of(info, stream))]);
  };
  /** @param {readonly [ConsumerInfo, StreamConfig, number | null]} answer */
  const show = ([info, config, lag]) => {
    const wantedHead = JSON.stringify([info.config, info.paused, info.priority_groups]);
    if (wantedHead !== shownHead && !head.querySelector('.menu [aria-expanded="true"]')) {
      shownHead = wantedHead;
      const actions = app.isReadOnly ? [] : consumerActions(place, link, info, config, reload);
      const sub = h("span", { class: "row" }, info.config.description && foreign(info.config.description), tag(kindOf(info)), filtersOf(info.config).map((filter) => h("span", { class: "tag" }, foreign(filter, "mono"))));
      replace(head, pageHead(foreign(name), { sub, actions, crumb: { href: to("streams", [streamName, "consumers"]), label: visible(text.back(streamName)) } }));
    }
    const now = Date.now() / 1_000;
    const found = rates.of(name, now, { delivered: info.delivered.consumer_seq, acked: info.ack_floor.consumer_seq });
    if (found) series.add(now, found);
    if (series.times.length > 1) chart.show(series.window(["delivered", "acked"], WINDOW_S));
    replace(top, topFigures(info, lag, series.last("delivered")));
    replace(state, stateFacts(info, deadStream));
    const wantedConfig = JSON.stringify(info.config);
    if (wantedConfig !== shownConfig) replace(configuration, configurationCards(info));
    shownConfig = wantedConfig;
    if (!body.isConnected) replace(host, head, body, onCommandLine(`headrace consumer info ${shellWord(streamName)} ${shellWord(name)}`, `headrace consumer next ${shellWord(streamName)} ${shellWord(name)} --nak`));
  };
  /** @param {unknown} error @returns {unknown} */
  const failed = (error) => {
    const isGone = error instanceof Refused && (error.errorCode === 10014 || error.errorCode === 10059);
    if (isGone) return replace(host, noConsumer(streamName, name));
    return body.isConnected ? KEPT : replace(host, h("div", { class: "card" }, failure(error, button(common.retry, reload))));
  };
  if (wrongName(streamName) || wrongName(name)) return replace(host, noConsumer(streamName, name));
  const reload = poll({ every: OFTEN, ask, show, failed, signal });
  return undefined;
}

/**
 * @param {string} stream
 * @param {string} name
 */
function noConsumer(stream, name) {
  return h("div", { class: "card" }, empty(text.gone, h("p", {}, foreign(name)), h("p", {}, text.goneNext), linkButton(visible(text.back(stream)), to("streams", [stream, "consumers"]))));
}

/**
 * What a user without the right to it does not see.
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T | null>}
 */
async function allowed(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NoRight || error instanceof NobodyThere || error instanceof Refused) return null;
    throw error;
  }
}

/**
 * @param {ConsumerInfo} info
 * @param {number | null} lag
 * @param {number | null} perSecond
 */
function topFigures(info, lag, perSecond) {
  const names = text.figures;
  const { config } = info;
  const most = (/** @type {number} */ value, /** @type {number | undefined} */ limit) => (limit && limit > 0 ? { note: text.ofMost(count(value), count(limit)) } : {});
  return figures(
    figure(names.pending, count(info.num_pending), { note: stateWord(info) }),
    figure(names.lag, duration(lag && Math.floor(lag)), { note: text.lagNote }),
    figure(names.unacked, count(info.num_ack_pending), most(info.num_ack_pending, config.max_ack_pending)),
    figure(names.redelivered, count(info.num_redelivered)),
    config.deliver_subject ? figure(text.facts.bound, info.push_bound ? text.bound : text.notBound) : figure(names.waiting, count(info.num_waiting), most(info.num_waiting, config.max_waiting)),
    figure(names.rate, rate(perSecond), { note: perSecond === null ? text.waitingNote : text.rateLine }),
  );
}

/**
 * @param {ConsumerInfo} info
 * @param {string | null | undefined} deadStream
 */
function stateFacts(info, deadStream) {
  const names = text.facts;
  const { config } = info;
  const at = (/** @type {number} */ sequence) =>
    sequence ? h("a", { href: to("streams", [info.stream_name, "messages"], { from: sequence }) }, text.stream(count(sequence))) : text.nothingYet;
  const dead = config.metadata?.[DEAD_LETTERS];
  const groups = /** @type {{ group: string, pinned_client_id?: string, pinned_ts?: string }[]} */ (info.priority_groups ?? []);
  return facts([
    [names.delivered, at(info.delivered.stream_seq)],
    [names.acked, info.ack_floor.stream_seq || !info.ack_floor.last_active ? at(info.ack_floor.stream_seq) : text.notTheFirst],
    [names.lastDelivery, ago(info.delivered.last_active)],
    [names.lastAck, ago(info.ack_floor.last_active)],
    [names.paused, info.paused ? h("span", {}, when(config.pause_until), " (", duration(Math.round((info.pause_remaining ?? 0) / 1e9)), ")") : undefined],
    [names.deadLetters, dead === undefined ? undefined : deadLetters(dead, deadStream)],
    ...groups.filter((group) => group.pinned_client_id).map((group) => /** @type {[string, import("../../dom/element.js").Child]} */ ([
      names.pinned, h("span", {}, foreign(`${group.group}: ${group.pinned_client_id}`, "mono"), " ", ago(group.pinned_ts)),
    ])),
    [names.leader, info.cluster?.replicas?.length ? foreign(info.cluster.leader) : undefined],
    [names.created, when(info.created)],
  ]);
}

/**
 * @param {string} subject
 * @param {string | null | undefined} stream
 */
function deadLetters(subject, stream) {
  return h("span", {}, foreign(subject, "mono"), " ", stream ? h("a", { href: to("streams", [stream, "messages"], { subject }) }, foreign(text.deadIn(stream))) : h("span", { class: "muted" }, text.deadNowhere));
}

/** @param {ConsumerInfo} info */
function configurationCards({ config }) {
  return h(
    "div",
    { class: "grid" },
    card(text.configuration, {}, configurationFacts(config)),
    card(text.asJson, { actions: [button(common.copy, () => copy(JSON.stringify(config, null, 2)), { kind: "small", icon: "copy" })] }, jsonTree(config)),
  );
}
