/** The streams of an account as an operator sees them: their size and where they are. */

import { to } from "../../app.js";
import { SELDOM, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { jetstreamOfAll } from "../../nats/servers.js";
import { text } from "../../text/accounts.js";
import { card } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {import("../../nats/servers.js").StreamDetail & { server: string }} Row */

/**
 * @param {import("../index.js").Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {{ name: string, body: HTMLElement }} options
 */
export function showStreams({ app, signal }, link, { name, body }) {
  const isOwn = app.account?.who.account === name;
  const table = streamTable(isOwn);
  replace(body, card(text.tabs.streams, { flush: true }, table.element), !isOwn && h("p", { class: "muted" }, text.streamsHint));
  poll({
    every: SELDOM * 2,
    signal,
    ask: async () => byLeader(await jetstreamOfAll(link, { account: name, streams: true, config: true }, app.watch.servers.size)),
    show: (rows) => table.setRows(rows),
    failed: (error) => replace(body, failure(error)),
  });
}

/**
 * Each stream once: of its copies, the leader's.
 * @param {import("../../nats/system.js").FromServer<import("../../nats/servers.js").Jsz>[]} answers
 * @returns {Row[]}
 */
function byLeader(answers) {
  /** @type {Map<string, Row>} */
  const found = new Map();
  for (const { server, data } of answers) {
    for (const stream of (data?.account_details ?? []).flatMap((account) => account.stream_detail ?? [])) {
      if (!found.has(stream.name) || stream.cluster?.leader === server.name) found.set(stream.name, { ...stream, server: server.name });
    }
  }
  return [...found.values()];
}

/** @param {boolean} isOwn @returns {Table<Row>} */
function streamTable(isOwn) {
  const names = text.stream;
  return new Table(inAddress({
    name: "account-streams", label: text.tabs.streams, key: (row) => row.name, words: (row) => `${row.name} ${row.config?.subjects?.join(" ") ?? ""}`, sorted: ["name", "up"],
    columns: [
      { name: "name", label: names.name, cell: (row) => (isOwn ? h("a", { href: to("streams", [row.name]) }, foreign(row.name)) : foreign(row.name)), sort: (row) => row.name },
      { name: "subjects", label: names.subjects, cell: (row) => foreign(row.config?.subjects?.join(", "), "mono") },
      { name: "messages", label: names.messages, cell: (row) => count(row.state.messages), sort: (row) => row.state.messages, number: true },
      { name: "bytes", label: names.bytes, cell: (row) => bytes(row.state.bytes), sort: (row) => row.state.bytes, number: true },
      { name: "consumers", label: names.consumers, cell: (row) => count(row.state.consumer_count), sort: (row) => row.state.consumer_count, number: true },
      { name: "storage", label: names.storage, cell: (row) => foreign(row.config?.storage), sort: (row) => row.config?.storage },
      { name: "replicas", label: names.replicas, cell: (row) => count(row.config?.num_replicas ?? 1), sort: (row) => row.config?.num_replicas ?? 1, number: true },
      { name: "leader", label: names.leader, cell: (row) => foreign(row.cluster?.leader ?? row.server), sort: (row) => row.cluster?.leader ?? row.server },
    ],
    empty: () => empty(text.streamsNone),
  }));
}
