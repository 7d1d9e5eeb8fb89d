/** All streams: figures, kinds, what a new account does first. */

import { to } from "../../app.js";
import { OFTEN, SELDOM, poll } from "../../data/poll.js";
import { StreamList } from "../../data/stream_list.js";
import { keepInAddress } from "../../dom/address_query.js";
import { foreign, h, replace } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { asDate, bytes, count, durationNs, rate } from "../../format.js";
import { text } from "../../text/streams.js";
import { ago, button, commandLine, meter, onCommandLine, pageHead, tag, when } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { checkbox } from "../../ui/fields.js";
import { Table } from "../../ui/table.js";
import { inAddress } from "../../ui/table_address.js";
import { openCreate } from "./form.js";
import { openRestore } from "./restore.js";
import { forbidden } from "./rights.js";

/** @typedef {import("../../data/stream_list.js").StreamRow} StreamRow */
/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../index.js").Place} Place */

/** Streams that are something else to people, with pages of their own. */
const OTHERS = /^(KV_|OBJ_|\$MQTT_)/;

/** @param {Place} place */
export function showList(place) {
  void useStyles("streams");
  const { host, app, signal, query } = place;
  const link = /** @type {import("../../nats/link.js").Link} */ (app.account);
  const list = new StreamList(link);
  let withOthers = query.get("all") === "1";

  const more = h("span", { class: "row" });
  const others = checkbox(text.showAll, {
    checked: withOthers,
    onchange: (isOn) => {
      withOthers = isOn;
      keepInAddress({ all: isOn ? "1" : null });
      draw();
    },
  });
  const table = streamTable({
    tools: [h("div", { class: "end" }, more, others.element)],
    open: (row) => place.go(to("streams", [row.name])),
    seen: (rows) => { if (list.isLarge) void list.seen(rows, () => table.redraw(), signal).catch(failed); },
    nothing: () => (list.rows.length ? empty(text.onlyBuckets, h("p", {}, text.onlyBucketsNext)) : noStreams(place)),
  });
  const body = h("div", { class: "stack" });
  const reload = () => list.refresh().then(draw).catch(failed);
  replace(host, pageHead(text.title, { sub: text.sub, actions: app.isReadOnly ? [] : actions(place) }), body, onCommandLine("headrace stream ls", "headrace stream report"));

  let isShown = false;
  function draw() {
    if (!isShown) replace(body, h("div", { class: "card" }, table.element));
    isShown = true;
    table.setRows(withOthers ? list.rows : list.rows.filter((row) => !OTHERS.test(row.name)));
    drawMore();
  }
  function drawMore() {
    if (!list.isLarge) return replace(more);
    if (!more.hasChildNodes()) replace(more, button(text.loadAll(count(list.rows.length)), loadAll, { kind: "small", title: text.large }));
    return undefined;
  }
  async function loadAll() {
    const said = h("span", { class: "muted", role: "status" });
    replace(more, said);
    try {
      await list.loadAll((done, total) => { said.textContent = text.loading(count(done), count(total)); }, signal);
    } catch (error) {
      failed(error);
    }
    replace(more);
    draw();
  }
  /** @param {unknown} error */
  function failed(error) {
    if (signal.aborted) return;
    isShown = false;
    replace(body, h("div", { class: "card" }, failure(error, button(text.again, () => void reload()))));
  }
  poll({ every: () => (list.rows.length > 256 ? SELDOM : OFTEN), ask: () => list.refresh(), show: draw, failed, signal });
}

/** @param {Place} place */
function actions(place) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  return [
    button(text.restore, () => openRestore(place), { icon: "upload", disabled: () => forbidden(link, "STREAM.RESTORE", "NEW") }),
    button(text.create, () => openCreate(place), { kind: "main", icon: "plus", disabled: () => forbidden(link, "STREAM.CREATE", "NEW") }),
  ];
}

/** @param {Place} place */
function noStreams(place) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  return empty(
    text.none,
    h("p", {}, text.noneNext),
    commandLine("headrace stream add ORDERS --subjects 'orders.>'"),
    !place.app.isReadOnly && button(text.create, () => openCreate(place), { kind: "main", icon: "plus", disabled: () => forbidden(link, "STREAM.CREATE", "NEW") }),
  );
}

/**
 * @param {{ tools: import("../../dom/element.js").Child[], open: (row: StreamRow) => void, seen: (rows: StreamRow[]) => void,
 *   nothing: () => import("../../dom/element.js").Child }} options
 * @returns {Table<StreamRow>}
 */
function streamTable({ tools, open, seen, nothing }) {
  const names = text.columns;
  /** @type {(of: (info: StreamInfo) => import("../../dom/element.js").Child) => (row: StreamRow) => import("../../dom/element.js").Child} */
  const known = (of) => (row) => (row.info ? of(row.info) : h("span", { class: "muted" }, "…"));
  /** @type {(of: (info: StreamInfo) => number | string | null | undefined) => (row: StreamRow) => number | string | null | undefined} */
  const value = (of) => (row) => row.info && of(row.info);
  const moment = (/** @type {string} */ time) => asDate(time)?.getTime();
  return new Table(inAddress({
    name: "streams", label: text.title, key: (row) => row.name, tools, open, seen, empty: nothing, sorted: ["name", "up"],
    words: (row) => `${row.name} ${row.info?.config.subjects?.join(" ") ?? ""} ${row.info?.config.description ?? ""}`,
    json: (row) => row.info ?? row.name,
    columns: [
      { name: "name", label: names.name, sort: (row) => row.name, cell: (row) => h("a", { href: to("streams", [row.name]) }, foreign(row.name, "strong")) },
      { name: "messages", label: names.messages, number: true, sort: value((info) => info.state.messages), cell: known((info) => count(info.state.messages)) },
      { name: "size", label: names.size, number: true, sort: value((info) => info.state.bytes), cell: known((info) => sizeOf(info)) },
      { name: "rate", label: names.rate, hint: text.rateHint, number: true, sort: (row) => row.rate, cell: (row) => rate(row.rate) },
      { name: "last", label: names.last, sort: value((info) => moment(info.state.last_ts)), cell: known((info) => ago(info.state.last_ts)) },
      { name: "consumers", label: names.consumers, number: true, sort: value((info) => info.state.consumer_count), cell: known((info) => count(info.state.consumer_count)) },
      { name: "kind", label: names.kind, cell: known((info) => h("span", { class: "tags" }, kindsOf(info).map(tag))) },
      { name: "subjects", label: names.subjects, cell: known((info) => foreign(info.config.subjects?.join(", ") ?? "", "muted")) },
      { name: "oldest", label: names.oldest, hidden: true, sort: value((info) => moment(info.state.first_ts)), cell: known((info) => (info.state.messages ? ago(info.state.first_ts) : "–")) },
      { name: "limits", label: names.limits, hidden: true, number: true, sort: value((info) => info.config.max_age), cell: known((info) => (info.config.max_age ? durationNs(info.config.max_age) : text.forever)) },
      { name: "sequence", label: names.sequence, hidden: true, number: true, sort: value((info) => info.state.last_seq), cell: known((info) => count(info.state.last_seq)) },
      { name: "replicas", label: names.replicas, hidden: true, number: true, sort: value((info) => info.config.num_replicas), cell: known((info) => count(info.config.num_replicas)) },
      { name: "created", label: names.created, hidden: true, sort: value((info) => moment(info.created)), cell: known((info) => when(info.created)) },
    ],
  }));
}

/** @param {StreamInfo} info */
function sizeOf({ config, state }) {
  const limit = config.max_bytes ?? -1;
  return limit > 0 ? meter(state.bytes, limit, text.ofLimit(bytes(state.bytes), bytes(limit))) : bytes(state.bytes);
}

/**
 * What is not usual about a stream, in words.
 * @param {StreamInfo} info
 * @returns {string[]}
 */
export function kindsOf({ config }) {
  return [
    config.mirror && text.kinds.mirror(config.mirror.name),
    config.sources?.length && text.kinds.sources(config.sources.length),
    config.retention === "workqueue" && text.kinds.workqueue,
    config.retention === "interest" && text.kinds.interest,
    config.storage === "memory" && text.kinds.memory,
    config.sealed && text.kinds.sealed,
  ].filter((word) => typeof word === "string");
}
