/** The way of a message: a block for each server, in the order of its hops, and what happened there. */

import { foreign, h, replace } from "../../dom/element.js";
import { asDate, duration } from "../../format.js";
import { text } from "../../text/live.js";
import { status } from "../../ui/blocks.js";
import { empty } from "../../ui/empty.js";

/** @typedef {import("../../nats/traces.js").TracedServer} TracedServer */
/** @typedef {import("../../nats/traces.js").TraceStep} TraceStep */

const words = text.trace;

export class TraceView {
  element = h("section", { class: "trace", "aria-label": words.title });
  /** @type {TracedServer[]} */
  #servers = [];

  get count() {
    return this.#servers.length;
  }

  /** @param {TracedServer} server */
  add(server) {
    this.#servers.push(server);
    this.#servers.sort((a, b) => byHop(a.hop, b.hop));
    this.#draw();
  }

  /** No server told anything. */
  none() {
    replace(this.element, h("h3", {}, words.title), empty(words.none, h("p", {}, words.noneNext)));
  }

  #draw() {
    const began = Math.min(...this.#servers.flatMap((server) => server.steps.map((step) => millis(step.ts)).filter((ms) => ms !== null)));
    const isNowhere = !this.#servers.some((server) => server.steps.some((step) => step.type === "eg" || step.type === "js" || step.error));
    replace(this.element, h("h3", {}, words.title), h("ol", {}, this.#servers.map((server) => serverItem(server, began))), isNowhere && status("warn", words.nowhere));
  }
}

/**
 * @param {TracedServer} server
 * @param {number} began
 */
function serverItem(server, began) {
  const item = h(
    "li",
    {},
    h("div", { class: "row" }, h("strong", {}, words.server(""), foreign(server.server.name ?? "")), server.server.cluster && h("span", { class: "tag" }, foreign(server.server.cluster))),
    h("ol", {}, server.steps.map((step) => stepItem(step, began))),
  );
  item.style.setProperty("--depth", String(server.hop ? server.hop.split(".").length : 0));
  return item;
}

/**
 * @param {TraceStep} step
 * @param {number} began
 */
function stepItem(step, began) {
  const at = millis(step.ts);
  const facts = Object.entries(words.facts).filter(([name]) => step[name]).map(([name, label]) => [`${label} `, foreign(step[name], "mono")]);
  return h(
    "li",
    { class: step.error ? "is-bad" : "" },
    h("span", { class: "muted number" }, at === null ? "" : `+${duration((at - began) / 1_000)}`),
    h("span", {}, verb(step), facts.map((fact) => [", ", ...fact]).flat(), Boolean(step.nointerest) && `, ${words.nointerest}`),
    step.error && status("bad", foreign(step.error)),
  );
}

/** @param {TraceStep} step */
function verb(step) {
  const kind = words.kinds[step.kind ?? -1] ?? words.connection;
  switch (step.type) {
    case "in": return words.from(kind);
    case "eg": return words.toKind(kind);
    case "sm": return foreign(words.mapped(String(step.to)));
    case "se": return foreign(words.service(String(step.from), String(step.to)));
    case "si": return foreign(words.stream(String(step.to)));
    case "js": return foreign(words.stored(String(step.stream)));
    default: return foreign(step.type);
  }
}

/**
 * Milliseconds of a time with nanoseconds, with their fraction.
 * @param {unknown} value
 */
function millis(value) {
  const date = typeof value === "string" ? asDate(value) : null;
  if (!date) return null;
  const fraction = /\.\d{3}(\d+)/.exec(String(value))?.[1] ?? "";
  return date.getTime() + Number(`0.${fraction || 0}`);
}

/**
 * @param {string} left
 * @param {string} right
 */
function byHop(left, right) {
  return left.localeCompare(right, undefined, { numeric: true });
}
