/** The options that a server runs with, as VARZ tells them, one in a row. */

import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count, durationNs } from "../../format.js";
import { text } from "../../text/server.js";
import { card } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";

/** @typedef {{ block: string, name: string, value: unknown }} Option */

/** What VARZ has beside options: figures, times, what the server is. */
const FIGURES = new Set([
  "server_id", "version", "proto", "git_commit", "go", "start", "now", "uptime", "mem", "cores", "gomaxprocs", "gomemlimit", "cpu", "connections", "total_connections", "routes", "remotes", "leafnodes",
  "slow_consumers", "stale_connections", "stalled_clients", "subscriptions", "http_req_stats", "config_load_time", "config_digest", "slow_consumer_stats", "stale_connection_stats",
  "disk_io_wait_stats", "tls_cert_not_after", "tls_ocsp_peer_verify", "jetstream.stats", "jetstream.meta", "cluster.urls", "pinned_account_fails", "connect_urls", "ws_connect_urls", "ip",
]);
const TRAFFIC = /^(in|out)_/;
const SIZES = /(payload|pending|memory|storage|control_line|max_bytes|_size|buffer)/;
/** Durations in nanoseconds; the time-outs of authentication and TLS are seconds. */
const DURATIONS = /(interval|deadline|duration|_wait|max_age|grace|delay|expires)/;
const SECONDS = /(auth_timeout|tls_timeout)/;

/**
 * @param {HTMLElement} body
 * @returns {(answer: { data: import("../../nats/servers.js").Varz }) => void}
 */
export function optionsOf(body) {
  const words = text.options;
  /** @type {Table<Option>} */
  const table = new Table(inAddress({
    name: "server-options", label: text.tabs.options, key: (row) => `${row.block}.${row.name}`, words: (row) => `${row.block} ${row.name} ${JSON.stringify(row.value)}`,
    columns: [
      { name: "name", label: words.name, cell: (row) => h("span", { class: "mono" }, row.block && h("span", { class: "muted" }, `${row.block}.`), foreign(row.name)), sort: (row) => `${row.block}.${row.name}` },
      { name: "value", label: words.value, cell: valueCell },
    ],
    empty: () => empty(words.none),
  }));
  let isMade = false;
  return ({ data }) => {
    if (!isMade) replace(body, h("p", { class: "muted" }, words.hint), card(null, { flush: true }, table.element));
    isMade = true;
    table.setRows([...leaves(data)].sort((a, b) => Number(Boolean(a.block)) - Number(Boolean(b.block))));
  };
}

/**
 * @param {object} document
 * @param {string} [block]
 * @returns {Generator<Option>}
 */
function* leaves(document, block = "") {
  for (const [name, value] of Object.entries(document)) {
    const path = block ? `${block}.${name}` : name;
    if (FIGURES.has(path) || FIGURES.has(name) || TRAFFIC.test(name)) continue;
    if (value && typeof value === "object" && !Array.isArray(value)) yield* leaves(value, path);
    else yield { block, name, value };
  }
}

/** @param {Option} row */
function valueCell({ name, value }) {
  const shown = inWords(name, value);
  const exact = typeof value === "string" ? value : JSON.stringify(value);
  return h("span", { title: shown === exact ? null : exact }, foreign(shown));
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function inWords(name, value) {
  if (typeof value === "number") {
    if (SECONDS.test(name)) return `${count(value)} s`;
    if (DURATIONS.test(name) && value >= 1_000) return durationNs(value);
    if (SIZES.test(name) && value > 0) return bytes(value);
    return String(value);
  }
  if (Array.isArray(value)) return value.map((one) => (typeof one === "object" ? JSON.stringify(one) : String(one))).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
