/** A stream at a glance: figures, the rate over time, subjects with counts, mirrors and sources, servers. */

import { to } from "../../app.js";
import { Rates, Series } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { age, bytes, count, duration, durationNs, percent, rate, utc } from "../../format.js";
import { text as common } from "../../text/common.js";
import { text as forms } from "../../text/stream_forms.js";
import { text } from "../../text/streams.js";
import { card, facts, figure, figures, meter, onCommandLine, shellWord, status, when } from "../../ui/blocks.js";
import { Chart } from "../../ui/chart.js";
import { subjectsCard } from "./subjects.js";

/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../../nats/jetstream.js").SourceInfo} SourceInfo */

/** The chart shows so many seconds. */
const WINDOW_S = 600;

/**
 * @param {import("./one.js").StreamPlace} stream
 * @returns {import("./one.js").Part}
 */
export function showOverview({ place, link, name, info, host }) {
  const top = h("div");
  const state = h("div", { class: "body" });
  const rest = h("div", { class: "grid" });
  const subjects = subjectsCard(link, info, { signal: place.signal });
  const chart = new Chart({ label: text.rateTitle, lines: [{ name: "rate", label: text.rateLine }], shown: rate, signal: place.signal });
  replace(
    host,
    top,
    h("div", { class: "grid" }, card(text.rateTitle, { flush: true }, chart.element), h("section", { class: "card" }, h("header", {}, h("h2", {}, text.state)), state)),
    rest,
    subjects.element,
    onCommandLine(`headrace stream info ${shellWord(name)}`, `headrace stream subjects ${shellWord(name)}`),
  );
  const rates = new Rates();
  const series = new Series(["rate"]);
  /** @param {StreamInfo} now */
  const update = (now) => {
    const found = rates.of(name, Date.now() / 1_000, { rate: now.state.last_seq });
    if (found) series.add(Date.now() / 1_000, found);
    if (series.times.length > 1) chart.show(series.window(["rate"], WINDOW_S));
    replace(top, topFigures(now, series.last("rate")));
    replace(state, stateFacts(now));
    replace(rest, origins(now), servers(now));
    rest.hidden = !rest.hasChildNodes();
    subjects.update(now);
  };
  update(info);
  return { update };
}

/**
 * @param {StreamInfo} info
 * @param {number | null} perSecond
 */
function topFigures({ config, state }, perSecond) {
  const names = text.figures;
  const { messages, bytes: size } = state;
  const most = config.max_msgs ?? -1;
  const limit = config.max_bytes ?? -1;
  const address = (/** @type {string} */ part) => to("streams", [config.name, part]);
  return figures(
    figure(names.messages, h("a", { href: address("messages") }, count(messages)), most > 0 ? { below: meter(messages, most, percent(messages / most)), note: text.of(count(most)) } : { note: common.unlimited }),
    figure(names.size, bytes(size), limit > 0 ? { below: meter(size, limit, percent(size / limit)), note: text.of(bytes(limit)) } : { note: common.unlimited }),
    figure(names.rate, rate(perSecond), { note: perSecond === null ? text.waiting : text.rateLine }),
    figure(names.subjects, count(state.num_subjects ?? 0)),
    figure(names.consumers, h("a", { href: address("consumers") }, count(state.consumer_count))),
    state.messages ? figure(names.last, h("span", { title: utc(state.last_ts) }, duration(Math.floor(age(state.last_ts) ?? 0))), { note: text.ago }) : figure(names.last, common.none),
  );
}

/** @param {StreamInfo} info */
function stateFacts(info) {
  const { config, state } = info;
  const names = text.facts;
  return facts([
    [names.sequences, state.messages || state.last_seq ? h("span", { class: "nowrap" }, text.sequences(count(state.first_seq), count(state.last_seq))) : undefined],
    [names.first, state.messages ? when(state.first_ts) : undefined],
    [names.last, state.messages ? when(state.last_ts) : undefined],
    [names.deleted, state.num_deleted ? count(state.num_deleted) : undefined],
    [names.retention, config.max_age ? durationNs(config.max_age) : text.forever],
    [names.storage, forms.storages.find(([kind]) => kind === config.storage)?.[1] ?? config.storage],
    [names.replicas, config.num_replicas && config.num_replicas > 1 ? count(config.num_replicas) : undefined],
    [names.domain, info.domain ? foreign(info.domain) : undefined],
    [names.created, when(info.created)],
  ]);
}

/** Mirrors and sources, with how far behind they are. @param {StreamInfo} info */
function origins(info) {
  const all = [...(info.mirror ? [info.mirror] : []), ...(info.sources ?? [])];
  if (!all.length) return null;
  const names = text.originColumns;
  return card(text.origins, { flush: true }, plainTable(
    [names.name, names.state, names.lag, names.active, names.filter],
    all.map((one) => [
      one.external ? foreign(one.name) : h("a", { href: to("streams", [one.name]) }, foreign(one.name)),
      originState(one),
      count(one.lag),
      heard(one.active),
      one.filter_subject ? foreign(one.filter_subject, "mono") : "–",
    ]),
  ));
}

/** @param {SourceInfo} one */
function originState(one) {
  if (one.error) return status("bad", foreign(`${text.broken}: ${one.error.description}`));
  return one.active < 0 ? status("idle", text.notHeard) : status("good", text.follows);
}

/** @param {number} ns */
function heard(ns) {
  return ns < 0 ? "–" : `${duration(Math.round(ns / 1e8) / 10)}`;
}

/** The leader, or the owner of the bucket, and the servers that follow. @param {StreamInfo} info */
function servers(info) {
  const { leader, replicas = [] } = info.cluster ?? {};
  if (!leader || !replicas.length) return null;
  const names = text.serverColumns;
  return card(text.leader, { flush: true }, plainTable(
    [names.name, names.state, names.lag, names.active],
    [
      [foreign(leader), status("good", text.leads), "–", "–"],
      ...replicas.map((one) => [
        foreign(one.name),
        one.offline ? status("bad", text.offline) : one.current ? status("good", text.current) : status("warn", text.notCurrent),
        count(one.lag ?? 0),
        heard(one.active),
      ]),
    ],
  ));
}

/**
 * @param {string[]} heads
 * @param {import("../../dom/element.js").Child[][]} rows
 */
function plainTable(heads, rows) {
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))),
    ),
  );
}
