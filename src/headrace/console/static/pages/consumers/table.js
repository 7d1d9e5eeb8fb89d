/** The table of consumers, of one stream or of several: how far each is, how far behind, who pulls. */

import { to } from "../../app.js";
import { LagReader, filtersOf } from "../../data/consumer_lag.js";
import { OFTEN, SELDOM, poll } from "../../data/poll.js";
import { foreign, h } from "../../dom/element.js";
import { asDate, count, duration } from "../../format.js";
import { consumers } from "../../nats/consumers.js";
import { NoAnswer, NoRight, NobodyThere, Refused } from "../../nats/errors.js";
import { text } from "../../text/consumers.js";
import { ago, button, commandLine, shellWord, when } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { forbidden } from "../streams/rights.js";
import { openCreateConsumer } from "./form.js";
import { kindOf, stateOf, stateWord } from "./state.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {{ info: ConsumerInfo, lag: number | null | undefined, askedLag: number }} ConsumerRow lag undefined: not asked yet */

/** A lag is asked for again when it is older, in ms. */
const FRESH_MS = 4_000;
/** So many lags are asked for at once. */
const AT_ONCE = 8;

export class ConsumerTable {
  /**
   * @param {import("../index.js").Place} place
   * @param {Link} link
   * @param {{ stream?: StreamConfig, changed?: () => void, foot?: import("../../dom/element.js").Child[] }} options stream: the only one
   */
  constructor(place, link, { stream, changed = () => {}, foot = [] }) {
    this.#place = place;
    this.#link = link;
    this.#only = stream;
    this.#changed = changed;
    this.#lags = new LagReader(link);
    if (stream) this.know(stream);
    this.#table = this.#made(foot);
    this.element = h("div", {}, this.#table.element);
  }

  /** @type {import("../index.js").Place} */
  #place;
  /** @type {Link} */
  #link;
  /** @type {StreamConfig | undefined} */
  #only;
  /** @type {() => void} */
  #changed;
  /** @type {LagReader} */
  #lags;
  /** @type {Map<string, StreamConfig>} */
  #streams = new Map();
  /** @type {Map<string, ConsumerRow>} */
  #rows = new Map();
  /** @type {Table<ConsumerRow>} */
  #table;
  /** @type {ConsumerRow[]} */
  #inView = [];
  #isAskingLags = false;
  #isPoor = false;

  /** A stream whose consumers are shown: how its messages are read. @param {StreamConfig} config */
  know(config) {
    this.#streams.set(config.name, config);
  }

  /**
   * Show the consumers of these streams, again and again. Gives a function that asks at once.
   * @param {() => string[]} streams
   * @param {(done: number, total: number) => void} [progress]
   */
  follow(streams, progress = () => {}) {
    const { signal } = this.#place;
    return poll({
      every: () => (this.#rows.size > 256 || streams().length > 16 ? SELDOM : OFTEN),
      signal,
      ask: () => this.#ask(streams(), progress),
      show: (infos) => this.#show(infos),
      failed: (error) => this.element.replaceChildren(failure(error)),
    });
  }

  /**
   * @param {string[]} streams
   * @param {(done: number, total: number) => void} progress
   */
  async #ask(streams, progress) {
    const found = /** @type {ConsumerInfo[]} */ ([]);
    for (const [done, stream] of streams.entries()) {
      progress(done, streams.length);
      found.push(...(await this.#consumersOf(stream)));
    }
    progress(streams.length, streams.length);
    return found;
  }

  /** A stream that is gone meanwhile has none. @param {string} stream */
  async #consumersOf(stream) {
    const found = /** @type {ConsumerInfo[]} */ ([]);
    try {
      for (let total = 1; found.length < total; ) {
        const answer = await consumers(this.#link, stream, found.length);
        if (!answer.consumers?.length) break;
        found.push(...answer.consumers);
        total = answer.total;
      }
    } catch (error) {
      if (!(error instanceof Refused && error.errorCode === 10059) || this.#only) throw error;
    }
    return found;
  }

  /** @param {ConsumerInfo[]} infos */
  #show(infos) {
    const rows = infos.map((info) => {
      const key = `${info.stream_name} ${info.name}`;
      const row = this.#rows.get(key) ?? { info, lag: undefined, askedLag: 0 };
      row.info = info;
      if (!info.num_pending && !info.num_ack_pending) row.lag = 0;
      return /** @type {[string, ConsumerRow]} */ ([key, row]);
    });
    this.#rows = new Map(rows);
    if (!this.#table.element.isConnected) this.element.replaceChildren(this.#table.element);
    this.#table.setRows([...this.#rows.values()]);
    void this.#askLags();
  }

  /** Ask for the lags of the rows in view, if they are old; a user without the right sees none. */
  async #askLags() {
    if (this.#isAskingLags || this.#isPoor) return;
    this.#isAskingLags = true;
    try {
      for (;;) {
        const due = this.#inView.filter((row) => row.lag !== 0 && Date.now() - row.askedLag > FRESH_MS).slice(0, AT_ONCE);
        if (!due.length || this.#place.signal.aborted) return;
        await Promise.all(due.map(async (row) => {
          row.askedLag = Date.now();
          const stream = this.#streams.get(row.info.stream_name);
          row.lag = stream ? await this.#lags.of(row.info, stream) : null;
        }));
        this.#table.redraw();
      }
    } catch (error) {
      if (error instanceof NoRight || error instanceof NobodyThere) this.#isPoor = true;
      else if (!(error instanceof NoAnswer || error instanceof Refused)) throw error;
    } finally {
      this.#isAskingLags = false;
    }
  }

  /** @param {import("../../dom/element.js").Child[]} foot @returns {Table<ConsumerRow>} */
  #made(foot) {
    const names = text.columns;
    const { hints } = text;
    const many = !this.#only;
    const moment = (/** @type {string | undefined} */ time) => asDate(time)?.getTime();
    const address = (/** @type {ConsumerRow} */ { info }) => to("consumers", [info.stream_name, info.name]);
    const stream = this.#only?.name;
    const create = stream !== undefined && !this.#place.app.isReadOnly
      ? button(text.create, () => this.#create(), { kind: "small", icon: "plus", disabled: () => forbidden(this.#link, "CONSUMER.CREATE", stream, "NEW") })
      : null;
    return new Table(inAddress({
      name: many ? "all-consumers" : "consumers", label: text.title, key: ({ info }) => `${info.stream_name} ${info.name}`,
      words: ({ info }) => `${info.name} ${info.stream_name} ${filtersOf(info.config).join(" ")} ${info.config.description ?? ""}`,
      json: (row) => row.info, sorted: ["pending", "down"], open: (row) => this.#place.go(address(row)), foot,
      seen: (rows) => { this.#inView = rows; void this.#askLags(); },
      tools: [h("div", { class: "end" }, create)], empty: () => this.#nothing(),
      columns: [
        { name: "name", label: names.name, sort: (row) => row.info.name, cell: (row) => h("a", { href: address(row) }, foreign(row.info.name)) },
        ...(many ? [{ name: "stream", label: names.stream, sort: (/** @type {ConsumerRow} */ row) => row.info.stream_name, cell: (/** @type {ConsumerRow} */ row) => h("a", { href: to("streams", [row.info.stream_name, "consumers"]) }, foreign(row.info.stream_name)) }] : []),
        { name: "state", label: names.state, sort: (row) => stateOf(row.info)[1], cell: (row) => stateWord(row.info) },
        { name: "pending", label: names.pending, hint: hints.pending, number: true, sort: (row) => row.info.num_pending, cell: (row) => count(row.info.num_pending) },
        { name: "lag", label: names.lag, hint: hints.lag, number: true, sort: (row) => row.lag, cell: (row) => (row.lag === undefined ? "…" : duration(row.lag && Math.floor(row.lag))) },
        { name: "unacked", label: names.unacked, hint: hints.unacked, number: true, sort: (row) => row.info.num_ack_pending, cell: (row) => count(row.info.num_ack_pending) },
        { name: "redelivered", label: names.redelivered, hint: hints.redelivered, number: true, sort: (row) => row.info.num_redelivered, cell: (row) => count(row.info.num_redelivered) },
        { name: "waiting", label: names.waiting, hint: hints.waiting, number: true, sort: (row) => row.info.num_waiting, cell: (row) => (row.info.config.deliver_subject ? "–" : count(row.info.num_waiting)) },
        { name: "delivered", label: names.delivered, sort: (row) => moment(row.info.delivered.last_active), cell: (row) => ago(row.info.delivered.last_active) },
        { name: "acked", label: names.acked, sort: (row) => moment(row.info.ack_floor.last_active), cell: (row) => ago(row.info.ack_floor.last_active) },
        { name: "kind", label: names.kind, hidden: true, sort: (row) => kindOf(row.info), cell: (row) => kindOf(row.info) },
        { name: "filter", label: names.filter, hidden: true, cell: (row) => foreign(filtersOf(row.info.config).join(", ") || "–", "mono") },
        { name: "paused", label: names.paused, hidden: true, cell: (row) => (row.info.paused ? when(row.info.config.pause_until) : "–") },
        { name: "created", label: names.created, hidden: true, sort: (row) => moment(row.info.created), cell: (row) => when(row.info.created) },
      ],
    }));
  }

  #create() {
    if (this.#only) openCreateConsumer(this.#place, this.#link, this.#only, this.#changed);
  }

  #nothing() {
    if (!this.#only) return empty(text.none, h("p", {}, text.noneNext), h("a", { href: to("streams") }, text.toStreams));
    return empty(text.noneOfStream, h("p", {}, text.noneOfStreamNext), commandLine(`headrace consumer add ${shellWord(this.#only.name)} worker`));
  }
}
