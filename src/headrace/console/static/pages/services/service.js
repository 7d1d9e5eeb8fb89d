/** One service: its figures, its endpoints, each of which can be called, its instances and how quickly they answer. */

import { to } from "../../app.js";
import { OFTEN, SELDOM, poll } from "../../data/poll.js";
import { Rates } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { age, brief, count, duration, percent, rate } from "../../format.js";
import { mayPublish } from "../../nats/rights.js";
import { pingService, serviceInfos, serviceStats } from "../../nats/services.js";
import { text } from "../../text/services.js";
import { button, card, facts, figure, figures, onCommandLine, pageHead, shellWord, status } from "../../ui/blocks.js";
import { openDialog } from "../../ui/dialog.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { Composer } from "../live/compose.js";
import { told } from "./notes.js";
import { endpoints, instances, mean } from "./summary.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("./summary.js").Endpoint & { speed: number | null }} EndpointRow */
/** @typedef {import("./summary.js").Instance} Instance */
/** @typedef {import("../../nats/services.js").InstanceInfo} InstanceInfo */

const MANY = 200;

export class ServicePage {
  /**
   * @param {Place} place
   * @param {Link} link
   * @param {string} name
   */
  constructor(place, link, name) {
    this.#place = place;
    this.#link = link;
    this.#name = name;
    const { host, signal } = place;
    this.#figures = h("div");
    this.#notes = h("div", { class: "stack" });
    this.#about = h("p", { class: "muted" });
    this.#endpoints = this.#endpointTable();
    this.#instances = this.#instanceTable();
    this.#body = h(
      "div",
      { class: "stack", hidden: true },
      this.#figures,
      card(text.endpoints, { flush: true }, this.#endpoints.element),
      card(text.instances, { flush: true, actions: [button(text.ping, () => void this.#ping(), { kind: "small" })] }, this.#instances.element),
      this.#metadata,
    );
    this.#missing = h("div");
    const word = shellWord(name);
    replace(
      host,
      pageHead(foreign(name), { sub: this.#about, crumb: { href: to("services"), label: text.all } }),
      this.#notes, this.#missing, this.#body,
      onCommandLine(`headrace micro info ${word}`, `headrace micro stats ${word}`, `headrace micro ping ${word}`, `headrace micro request ${word} ENDPOINT`),
    );
    poll({
      signal,
      every: (answer) => (answer && answer.infos.found.length > MANY ? SELDOM : OFTEN),
      ask: async () => ({ infos: await serviceInfos(link, name), stats: await serviceStats(link, name) }),
      show: ({ infos, stats }) => this.#show(infos, stats),
      failed: (error) => this.#fail(error),
    });
    void this.#ping();
  }

  /** @type {Place} */
  #place;
  /** @type {Link} */
  #link;
  #name = "";
  #rates = new Rates();
  /** Milliseconds by id. @type {Map<string, number> | null} */
  #pings = null;
  #figures;
  #notes;
  #about;
  #body;
  #missing;
  #metadata = h("div");
  /** @type {Table<EndpointRow>} */
  #endpoints;
  /** @type {Table<Instance>} */
  #instances;

  /**
   * @param {import("../../nats/services.js").Answers<InstanceInfo>} infos
   * @param {import("../../nats/services.js").Answers<import("../../nats/services.js").InstanceStats>} stats
   */
  #show(infos, stats) {
    const now = Date.now() / 1_000;
    const all = instances(infos.found, stats.found);
    replace(this.#notes, told(infos.strange + stats.strange, all.length));
    this.#body.hidden = !all.length;
    replace(this.#missing, !all.length && card("", {}, empty(text.gone(this.#name), h("p", {}, text.goneNext))));
    if (!all.length) return;
    replace(this.#about, foreign(infos.found.find((info) => info.description)?.description ?? ""));
    const rows = endpoints(infos.found, stats.found).map((endpoint) => ({ ...endpoint, speed: this.#rates.of(`${endpoint.name} ${endpoint.subject}`, now, { requests: endpoint.requests })?.requests ?? null }));
    this.#endpoints.setRows(rows);
    this.#instances.setRows(all);
    this.#drawFigures(all, rows);
    const metadata = Object.entries(infos.found[0]?.metadata ?? {});
    replace(this.#metadata, metadata.length > 0 && card(text.metadata, {}, facts(metadata.map(([name, value]) => [name, foreign(value)]))));
  }

  /**
   * @param {Instance[]} all
   * @param {EndpointRow[]} rows
   */
  #drawFigures(all, rows) {
    const sum = rows.reduce((total, row) => ({ requests: total.requests + row.requests, errors: total.errors + row.errors, busyNs: total.busyNs + row.busyNs }), { requests: 0, errors: 0, busyNs: 0 });
    const speeds = rows.map((row) => row.speed).filter((speed) => speed !== null);
    const words = text.figures;
    replace(
      this.#figures,
      figures(
        figure(words.instances, count(all.length)),
        figure(words.requests, brief(sum.requests)),
        figure(words.rate, rate(speeds.length ? speeds.reduce((total, speed) => total + speed, 0) : null)),
        figure(words.errors, brief(sum.errors), { note: sum.errors ? text.ofRequests(percent(sum.errors / sum.requests)) : undefined }),
        figure(words.mean, duration(mean(sum))),
      ),
    );
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#body.hidden = true;
    replace(this.#missing, card("", {}, failure(error)));
  }

  async #ping() {
    try {
      const { found } = await pingService(this.#link, this.#name);
      this.#pings = new Map(found.map((pong) => [pong.id, pong.ms]));
      if (!this.#place.signal.aborted) this.#instances.redraw();
    } catch (error) {
      if (!this.#place.signal.aborted) replace(this.#notes, failure(error));
    }
  }

  /** @param {EndpointRow} endpoint */
  async #call(endpoint) {
    await useStyles("live");
    const closed = new AbortController();
    const composer = new Composer(this.#link, { filled: { subject: endpoint.subject, kind: "request" }, signal: AbortSignal.any([closed.signal, this.#place.signal]) });
    openDialog(text.callTitle(endpoint.name), { class: "wide", signal: this.#place.signal, closed: () => closed.abort() }, /[*>]/.test(endpoint.subject) && h("p", { class: "muted" }, text.wildcard), composer.element);
    composer.focus();
  }

  #endpointTable() {
    const words = text.endpointColumns;
    /** @type {import("../../ui/table.js").Column<EndpointRow>[]} */
    const columns = [
      { name: "name", label: words.name, sort: (row) => row.name, cell: (row) => foreign(row.name) },
      { name: "subject", label: words.subject, sort: (row) => row.subject, cell: (row) => h("a", { href: to("live", [], { subject: row.subject }) }, foreign(row.subject, "mono")) },
      { name: "queue", label: words.queue, sort: (row) => row.queue, cell: (row) => foreign(row.queue, "mono") },
      { name: "requests", label: words.requests, number: true, sort: (row) => row.requests, cell: (row) => brief(row.requests) },
      { name: "rate", label: words.rate, number: true, sort: (row) => row.speed, cell: (row) => rate(row.speed) },
      { name: "errors", label: words.errors, number: true, sort: (row) => row.errors, cell: (row) => (row.errors ? status("bad", brief(row.errors)) : "0") },
      { name: "mean", label: words.mean, number: true, hint: text.meanHint, sort: mean, cell: (row) => duration(mean(row)) },
      { name: "error", label: words.error, cell: (row) => foreign(row.lastError, "muted") },
    ];
    if (!this.#place.app.isReadOnly) columns.push({ name: "call", label: words.call, cell: (row) => this.#callButton(row) });
    return new Table(inAddress({ name: "service-endpoints", label: text.endpointLabel, columns, key: (row) => `${row.name} ${row.subject}`, sorted: ["name", "up"], plain: true }));
  }

  /** @param {EndpointRow} row */
  #callButton(row) {
    const isForbidden = () => !/[*>]/.test(row.subject) && !mayPublish(this.#link, row.subject);
    return button(text.call, () => void this.#call(row), { kind: "small", disabled: () => isForbidden() && text.forbidden(row.subject) });
  }

  #instanceTable() {
    const words = text.instanceColumns;
    return new Table(inAddress({
      name: "service-instances",
      label: text.instanceLabel,
      key: (/** @type {Instance} */ row) => row.id,
      sorted: ["id", "up"],
      columns: [
        { name: "id", label: words.id, sort: (row) => row.id, cell: (row) => foreign(row.id, "mono") },
        { name: "version", label: words.version, sort: (row) => row.version, cell: (row) => foreign(row.version) },
        { name: "started", label: words.started, number: true, sort: (row) => age(row.started), cell: (row) => h("span", { title: row.started }, duration(whole(age(row.started)))) },
        { name: "requests", label: words.requests, number: true, sort: (row) => row.requests, cell: (row) => brief(row.requests) },
        { name: "errors", label: words.errors, number: true, sort: (row) => row.errors, cell: (row) => (row.errors ? status("bad", brief(row.errors)) : "0") },
        { name: "mean", label: words.mean, number: true, hint: text.meanHint, sort: mean, cell: (row) => duration(mean(row)) },
        { name: "ping", label: words.ping, number: true, sort: (row) => this.#pings?.get(row.id), cell: (row) => this.#pong(row) },
      ],
    }, "instances-"));
  }

  /** @param {Instance} row */
  #pong({ id }) {
    if (!this.#pings) return "…";
    const ms = this.#pings.get(id);
    return ms === undefined ? h("span", { class: "muted" }, text.silent) : duration(ms / 1_000);
  }
}

/** @param {number | null} seconds */
function whole(seconds) {
  return seconds === null ? null : Math.floor(seconds);
}
