/** What a server stores: JetStream's use of its limits, how it stores, its cluster, the bucket below it. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count, durationNs } from "../../format.js";
import { limit } from "../../nats/accounts.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/server.js";
import { card, facts, meter, status, when } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";
import { bucketCards } from "./bucket.js";

/** @typedef {import("../../nats/servers.js").Jsz} Jsz */

const words = text.storage;

/**
 * @param {HTMLElement} body
 * @returns {(answer: { server: import("../../nats/system.js").ServerIdentity, data: Jsz }) => void}
 */
export function storageOf(body) {
  return ({ server, data }) => {
    if (data.disabled || !data.config) return replace(body, empty(words.off, words.offNext));
    return replace(
      body,
      h("div", { class: "grid" }, card(words.use, {}, use(data)), card(words.how, {}, how(data))),
      data.meta_cluster && card(words.meta, { flush: !isAlone(data) }, meta(data, server.name)),
      ...bucketCards(data.bucket),
      data.archive && card(words.archive, {}, archive(data.archive)),
    );
  };
}

/** @param {Jsz} data */
function isAlone(data) {
  return !data.meta_cluster?.replicas?.length;
}

/** @param {Jsz} data */
function use(data) {
  const { config } = data;
  const share = (/** @type {number} */ used, /** @type {number} */ most) => (most > 0 ? meter(used, most, text.of(bytes(used), bytes(most))) : common.usedUnlimited(bytes(used)));
  const promised = (/** @type {number | undefined} */ reserved) => (reserved && limit(reserved) > 0 ? bytes(reserved) : null);
  return facts([
    [words.storage, share(data.storage, config?.max_storage ?? 0)],
    [words.memory, share(data.memory, config?.max_memory ?? 0)],
    [words.reservedStorage, promised(data.reserved_storage)],
    [words.reservedMemory, promised(data.reserved_memory)],
    [words.accounts, count(data.accounts)],
    [words.streams, count(data.streams)],
    [words.consumers, count(data.consumers)],
    [words.messages, count(data.messages)],
    [words.bytes, bytes(data.bytes)],
    [words.api, h("span", {}, count(data.api?.total), data.api?.errors ? [" · ", words.errors(count(data.api.errors))] : [])],
  ]);
}

/** @param {Jsz} data */
function how({ config, api }) {
  const interval = config?.sync_interval ?? 0;
  return facts([
    [words.directory, config?.store_dir ? foreign(config.store_dir, "mono") : null],
    [words.sync, config?.sync_always ? words.always : interval > 0 ? words.every(durationNs(interval)) : null],
    [words.maxStorage, config && config.max_storage > 0 ? bytes(config.max_storage) : common.unlimited],
    [words.maxMemory, config && config.max_memory > 0 ? bytes(config.max_memory) : common.unlimited],
    [words.domain, config?.domain ? foreign(config.domain) : null],
    [words.level, api?.level ? count(api.level) : null],
  ]);
}

/**
 * @param {Jsz} data
 * @param {string} own
 */
function meta({ meta_cluster: cluster }, own) {
  const leader = facts([
    [words.leader, cluster?.leader ? h("span", {}, foreign(cluster.leader), cluster.leader === own && ` (${words.isLeader})`) : status("bad", common.none)],
    [words.size, cluster?.cluster_size ? count(cluster.cluster_size) : null],
  ]);
  const replicas = cluster?.replicas ?? [];
  if (!replicas.length) return leader;
  return h(
    "div",
    {},
    h("div", { class: "body" }, leader),
    h("table", { class: "table", "aria-label": words.meta }, h("tbody", {}, replicas.map((one) => h("tr", {}, h("th", { scope: "row" }, foreign(one.name)), h("td", {}, one.offline ? status("bad", words.offline) : one.current ? status("good", words.current) : status("warn", words.behind)), h("td", { class: "number" }, durationNs(one.active)))))),
  );
}

/** @param {import("../../nats/servers.js").ArchiveState} state */
function archive(state) {
  return facts([
    [words.archiveTo, foreign(state.to, "mono")],
    [words.rounds, count(state.rounds)],
    [words.rows, count(state.rows)],
    [words.files, `${count(state.files)} · ${bytes(state.bytes)}`],
    [words.failures, state.failures ? status("warn", count(state.failures)) : "0"],
    [words.last, when(state.last)],
    [words.lastError, state.last_error ? foreign(state.last_error) : null],
  ]);
}

