/** The first part of an account: what it does now, of which limits, and what it has in JetStream. */

import { foreign, h, replace } from "../../dom/element.js";
import { brief, bytes, count } from "../../format.js";
import { limit } from "../../nats/accounts.js";
import { text } from "../../text/accounts.js";
import { text as common } from "../../text/common.js";
import { card, facts, figure, figures as figureRow, meter, status, tag, when } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";

/** @typedef {import("./one.js").Account} Account */
/** @typedef {import("../../nats/accounts.js").Limits} Limits */
/** @typedef {import("../../nats/accounts.js").Tier} Tier */
/** @typedef {import("../../nats/servers.js").AccountDetail} AccountDetail */
/** @typedef {{ stats: import("../../nats/system.js").AccountStats | null, rates: Record<string, number> | null, jetstream: AccountDetail[] }} Figures */

/**
 * @param {HTMLElement} body
 * @param {Account} account
 * @param {Figures} figures
 */
export function drawOverview(body, account, figures) {
  const { detail, claims } = account;
  const limits = claims?.nats?.limits ?? null;
  replace(
    body,
    detail?.expired && h("p", { class: "problem" }, text.expired),
    detail && !detail.complete && h("p", { class: "problem" }, text.incomplete),
    detail ? now(figures, detail, limits) : empty(text.notLoadedTitle, text.notLoadedNext),
    h("div", { class: "grid" }, card(text.limits, {}, limits ? limitFacts(limits) : h("p", { class: "muted" }, text.limitsUntold)), jetstreamCard(account, figures.jetstream, limits)),
    detail && card(null, {}, about(account)),
  );
}

/**
 * @param {Figures} figures
 * @param {import("../../nats/accounts.js").AccountInfo} detail
 * @param {Limits | null} limits
 */
function now({ stats, rates }, detail, limits) {
  const rate = (/** @type {string} */ name) => (rates ? text.perSecond(brief(rates[name])) : "–");
  const conns = stats?.conns ?? detail.client_connections;
  const leafs = stats?.leafnodes ?? detail.leafnode_connections;
  const ofLimit = (/** @type {number} */ used, /** @type {number | undefined} */ most) => (most && most > 0 ? meter(used, most, text.of(count(used), count(most))) : null);
  return figureRow(
    figure(text.connections, brief(conns), { below: ofLimit(conns, limits?.conn) }),
    figure(text.leafs, brief(leafs), { below: ofLimit(leafs, limits?.leaf) }),
    figure(text.subscriptions, brief(detail.subscriptions), { below: ofLimit(detail.subscriptions, limits?.subs) }),
    figure(text.from, rate("from"), { note: stats ? text.inAll(count(stats.received.msgs), bytes(stats.received.bytes)) : null }),
    figure(text.to, rate("to"), { note: stats ? text.inAll(count(stats.sent.msgs), bytes(stats.sent.bytes)) : null }),
    figure(text.slow, stats ? brief(stats.slow_consumers) : "–"),
  );
}

/** @param {Limits} limits */
function limitFacts(limits) {
  const names = text.limitNames;
  return facts([
    [names.conn, told(limits.conn, count)],
    [names.leaf, told(limits.leaf, count)],
    [names.subs, told(limits.subs, count)],
    [names.payload, told(limits.payload, bytes)],
    [names.data, told(limits.data, bytes)],
    [names.imports, told(limits.imports, count)],
    [names.exports, told(limits.exports, count)],
    [names.wildcards, limits.wildcards === undefined ? null : limits.wildcards ? text.yes : text.no],
  ]);
}

/**
 * A limit in words; -1 is none.
 * @param {number | undefined} value
 * @param {(value: number) => string} shown
 */
function told(value, shown) {
  return value === undefined ? null : value < 0 ? common.unlimited : shown(value);
}

/**
 * @param {Account} account
 * @param {AccountDetail[]} parts of the servers that have some of it
 * @param {Limits | null} limits
 */
function jetstreamCard({ detail }, parts, limits) {
  const isOn = parts.length > 0 || detail?.jetstream_enabled || Boolean(limits?.disk_storage || limits?.mem_storage);
  if (!isOn && !Object.keys(limits?.tiered_limits ?? {}).length) return card(text.jetstream, { flush: true }, empty(text.jetstreamOff, h("p", {}, text.jetstreamOffNext.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part)))));
  const sum = (/** @type {"storage" | "memory"} */ what) => parts.reduce((all, part) => all + part[what], 0);
  const tiers = Object.entries(limits?.tiered_limits ?? {});
  const storage = limits?.disk_storage || limit(parts[0]?.reserved_storage);
  const memory = limits?.mem_storage || limit(parts[0]?.reserved_memory);
  const api = parts.reduce((all, part) => ({ total: all.total + (part.api?.total ?? 0), errors: all.errors + (part.api?.errors ?? 0) }), { total: 0, errors: 0 });
  return card(
    text.jetstream,
    {},
    facts([
      [text.storage, use(sum("storage"), tiers.length ? -1 : storage)],
      [text.memory, use(sum("memory"), tiers.length ? -1 : memory)],
      ...(tiers.length ? [] : tierFacts(limits ?? {})),
      [text.apiRequests, h("span", {}, count(api.total), api.errors > 0 && [" · ", status("warn", `${count(api.errors)} ${text.apiErrors}`)])],
    ]),
    tiers.map(([name, tier]) => h("div", {}, h("h3", {}, text.tier(name)), facts([[text.storage, told(tier.disk_storage, bytes)], [text.memory, told(tier.mem_storage, bytes)], ...tierFacts(tier)]))),
  );
}

/** @param {Tier} tier @returns {[string, import("../../dom/element.js").Child | undefined][]} */
function tierFacts(tier) {
  return [
    [text.streams, told(tier.streams, count)],
    [text.consumers, told(tier.consumer, count)],
    [text.ackPending, tier.max_ack_pending ? told(tier.max_ack_pending, count) : null],
    [text.streamStorage, tier.disk_max_stream_bytes ? told(tier.disk_max_stream_bytes, bytes) : null],
    [text.streamMemory, tier.mem_max_stream_bytes ? told(tier.mem_max_stream_bytes, bytes) : null],
    [text.maxBytesRequired, tier.max_bytes_required ? text.yes : null],
  ];
}

/**
 * @param {number} used
 * @param {number} most
 */
function use(used, most) {
  return most > 0 ? meter(used, most, text.of(bytes(used), bytes(most))) : common.usedUnlimited(bytes(used));
}

/** @param {Account} account */
function about({ name, detail, claims }) {
  const names = text.facts;
  return facts([
    [names.name, detail?.name_tag && detail.name_tag !== name ? foreign(detail.name_tag) : null],
    [names.key, foreign(name, "mono")],
    [names.updated, when(detail?.update_time)],
    [names.system, detail?.is_system ? text.yes : null],
    [names.issuer, detail?.issuer_key ?? claims?.iss ? foreign(detail?.issuer_key ?? claims?.iss, "mono") : null],
    [names.tags, detail?.tags?.length ? h("span", { class: "row" }, detail.tags.map((one) => tag(foreign(one)))) : null],
  ]);
}
