/** The figures of a server: what it does now, what it is, where it listens, what went through it. */

import { Rates } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { asDate, brief, bytes, count, duration, goSeconds, time } from "../../format.js";
import { product } from "../../nats/servers.js";
import { text } from "../../text/server.js";
import { card, facts, figure, figures, meter, status, tag, when } from "../../ui/blocks.js";

/** @typedef {import("../../nats/servers.js").Varz} Varz */
/** @typedef {import("../../dom/element.js").Child} Child */

/**
 * @param {HTMLElement} body
 * @returns {(answer: import("../../nats/system.js").FromServer<Varz>) => void}
 */
export function figuresOf(body) {
  const rates = new Rates();
  return ({ data: varz }) => {
    const counters = { in: number(varz.in_msgs), out: number(varz.out_msgs), inBytes: number(varz.in_bytes), outBytes: number(varz.out_bytes) };
    const speed = rates.of("it", (asDate(varz.now)?.getTime() ?? Date.now()) / 1_000, counters);
    replace(body, now(varz, speed), h("div", { class: "grid" }, card(text.about, {}, about(varz)), card(text.listeners, {}, listeners(varz))), card(text.traffic, { flush: true }, traffic(varz)));
  };
}

/** @param {unknown} value */
function number(value) {
  return typeof value === "number" ? value : 0;
}

/**
 * @param {Varz} varz
 * @param {Record<string, number> | null} speed
 */
function now(varz, speed) {
  const names = text.figures;
  const most = varz.max_connections ?? 0;
  const rate = (/** @type {string} */ name) => (speed ? text.perSecond(brief(speed[name])) : "–");
  const size = (/** @type {string} */ name) => (speed ? text.bytesPerSecond(bytes(speed[name])) : null);
  return figures(
    figure(names.cpu, text.percent(count(varz.cpu)), { note: text.ofCores(varz.cores) }),
    figure(names.mem, bytes(varz.mem)),
    figure(names.connections, brief(varz.connections), { below: most > 0 ? meter(varz.connections, most, text.of(count(varz.connections), count(most))) : null }),
    figure(names.from, rate("in"), { note: size("inBytes") }),
    figure(names.to, rate("out"), { note: size("outBytes") }),
    figure(names.slow, brief(varz.slow_consumers ?? 0), { note: names.staleOf(count(number(varz.stale_connections))) }),
  );
}

/** @param {Varz} varz */
function about(varz) {
  const names = text.facts;
  const tags = Array.isArray(varz.tags) ? varz.tags.map(String) : [];
  return facts([
    [names.name, foreign(varz.server_name)],
    [names.id, foreign(varz.server_id, "mono")],
    [names.program, foreign(product(varz))],
    [names.runtime, varz.go ? foreign(varz.go) : null],
    [names.started, when(varz.start)],
    [names.uptime, duration(goSeconds(varz.uptime))],
    [names.subscriptions, count(number(varz.subscriptions))],
    [names.cluster, varz.cluster?.name ? foreign(varz.cluster.name) : null],
    [names.domain, varz.jetstream?.config?.domain ? foreign(varz.jetstream.config.domain) : null],
    [names.system, varz.system_account ? foreign(varz.system_account) : null],
    [names.tags, tags.length ? h("span", { class: "row" }, tags.map((one) => tag(foreign(one)))) : null],
    [names.config, when(varz.config_load_time)],
    [names.now, when(varz.now)],
  ]);
}

/** @param {Varz} varz */
function listeners(varz) {
  const names = text.listenerNames;
  /** @param {string} name @param {{ host?: unknown, port?: unknown, tls_required?: unknown, tls_cert_not_after?: string, no_tls?: unknown } | undefined} block @param {boolean | null} hasTls @returns {[string, Child]} */
  const row = (name, block, hasTls) => {
    const port = number(block?.port);
    if (port <= 0) return [name, null];
    return [
      name,
      h(
        "span",
        { class: "row" },
        foreign(`${block?.host || "0.0.0.0"}:${port}`, "mono"),
        hasTls === null ? null : hasTls ? status("good", text.tls) : status("idle", text.noTls),
        block?.tls_cert_not_after && !block.tls_cert_not_after.startsWith("0001-") && h("span", { class: "muted small" }, text.certificate(time(block.tls_cert_not_after))),
      ),
    ];
  };
  const block = (/** @type {"cluster" | "gateway" | "leaf" | "websocket" | "mqtt"} */ name) => {
    const found = varz[name];
    return found?.port ? { ...found, host: found.host ?? found.addr } : undefined;
  };
  return facts([
    row(names.clients, varz, Boolean(varz.tls_required || varz.tls_verify)),
    row(names.websocket, block("websocket"), !varz.websocket?.no_tls),
    row(names.cluster, cluster(varz), Boolean(varz.cluster?.tls_required)),
    row(names.gateway, block("gateway"), Boolean(varz.gateway?.tls_required)),
    row(names.leaf, block("leaf"), Boolean(varz.leaf?.tls_required)),
    row(names.mqtt, block("mqtt"), Boolean(varz.mqtt?.tls_cert_not_after)),
    row(names.http, { host: varz.http_host, port: varz.http_port }, null),
    row(names.https, { host: varz.http_host, port: varz.https_port }, true),
  ]);
}

/** The port of routes has another name. @param {Varz} varz */
function cluster({ cluster: block }) {
  return block ? { ...block, host: /** @type {string | undefined} */ (block.addr) ?? block.host, port: /** @type {number | undefined} */ (block.cluster_port) ?? block.port } : undefined;
}

/** @param {Varz} varz */
function traffic(varz) {
  const { trafficRows: rows, trafficColumns: columns } = text;
  const cell = (/** @type {Child} */ value) => h("td", { class: "number" }, value);
  /** @param {string} label @param {string} middle */
  const row = (label, middle) => {
    if (varz[`in_${middle}msgs`] === undefined) return null;
    return h("tr", {}, h("th", { scope: "row" }, label), cell(count(number(varz[`in_${middle}msgs`]))), cell(bytes(number(varz[`in_${middle}bytes`]))), cell(count(number(varz[`out_${middle}msgs`]))), cell(bytes(number(varz[`out_${middle}bytes`]))));
  };
  const heading = (/** @type {string} */ label) => h("th", { scope: "col", class: "number" }, label);
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table", "aria-label": text.traffic },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, columns.what), heading(columns.inMessages), heading(columns.inBytes), heading(columns.outMessages), heading(columns.outBytes))),
      h("tbody", {}, row(rows.clients, "client_"), row(rows.routes, "route_"), row(rows.gateways, "gateway_"), row(rows.leafs, "leaf_"), row(rows.all, "")),
    ),
  );
}
