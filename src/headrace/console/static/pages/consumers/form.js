/** The form of a consumer's configuration: making one, editing one with the difference shown. */

import { to } from "../../app.js";
import { filtersOf } from "../../data/consumer_lag.js";
import { h } from "../../dom/element.js";
import { readDurationNs } from "../../format.js";
import { createConsumer } from "../../nats/consumers.js";
import { noted } from "../../nats/own_actions.js";
import { text } from "../../text/consumers.js";
import { text as streamText } from "../../text/stream_forms.js";
import { onCommandLine, shellWord } from "../../ui/blocks.js";
import { openChanges } from "../../ui/changes.js";
import { openForm } from "../../ui/dialog.js";
import { checkbox, field, input, select, textarea } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";
import { momentOf } from "../streams/moments.js";
import { countOf, durationOf, jsonObject, subjectsOf, typedCount, typedDuration, wrongCount, wrongDuration, wrongName, wrongSubjects } from "../streams/values.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/jetstream.js").ConsumerConfig} ConsumerConfig */
/** @typedef {import("../../nats/jetstream.js").ConsumerInfo} ConsumerInfo */
/** @typedef {import("../index.js").Place} Place */

const DEAD_LETTERS = "headrace.dead_letter_subject";
/** Fields that the form has; the others are kept as they are, or come from the JSON. */
const FORM = new Set([
  "name", "durable_name", "description", "filter_subject", "filter_subjects", "deliver_policy", "opt_start_seq", "opt_start_time", "ack_policy", "ack_wait", "max_deliver",
  "backoff", "max_ack_pending", "inactive_threshold", "deliver_subject", "deliver_group", "metadata",
]);

/**
 * @param {Place} place
 * @param {Link} link
 * @param {import("../../nats/jetstream.js").StreamConfig} stream
 * @param {() => void} done
 */
export function openCreateConsumer(place, link, stream, done) {
  const form = consumerForm({ ack_policy: "explicit", deliver_policy: "all" }, { isNew: true, isHeadrace: Boolean(link.headrace) });
  openForm(text.createTitle(stream.name), {
    fields: form.fields, verb: text.verbCreate, wide: true, signal: place.signal, isRight: form.isRight,
    note: onCommandLine(`headrace consumer add ${shellWord(stream.name)} worker --filter 'orders.eu.>' --max-deliver 5 --backoff 1s,10s,1m`),
    run: async () => {
      const { name } = await noted(link, "consumerCreate", [stream.name, form.config().name ?? ""], createConsumer(link, stream.name, form.config(), "create"));
      say(text.made(name));
      done();
      place.go(to("consumers", [stream.name, name]));
    },
  });
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {ConsumerInfo} info
 * @param {() => void} done
 */
export function openEditConsumer(place, link, info, done) {
  const { name, stream_name: stream } = info;
  const form = consumerForm(info.config, { isNew: false, isHeadrace: Boolean(link.headrace) });
  openForm(text.editTitle(name), {
    fields: form.fields, verb: text.verbPreview, wide: true, signal: place.signal, isRight: form.isRight,
    note: onCommandLine(`headrace consumer edit ${shellWord(stream)} ${shellWord(name)} --wait 2m --dry-run`),
    run: async () => {
      const config = { ...form.config(), name };
      queueMicrotask(() => openChanges(text.changesTitle(name), {
        before: info.config, after: "name" in info.config ? config : without(config, "name"), verb: text.verbApply, signal: place.signal,
        run: async () => {
          await noted(link, "consumerUpdate", [stream, name], createConsumer(link, stream, config, "update"));
          say(text.changed(name));
          done();
        },
      }));
    },
  });
}

/**
 * @param {ConsumerConfig} before
 * @param {{ isNew: boolean, isHeadrace: boolean }} options
 */
function consumerForm(before, { isNew, isHeadrace }) {
  const names = text.form;
  const line = (/** @type {string} */ value, attributes = {}) => input({ value, ...attributes });
  const name = field(names.name, line(before.name ?? before.durable_name ?? "", { class: "mono", readonly: !isNew }), { check: wrongName });
  const ephemeral = checkbox(names.ephemeral, { checked: !isNew && !before.durable_name, hint: names.ephemeralHint, disabled: !isNew });
  const description = field(names.description, line(before.description ?? ""));
  const filters = field(names.filters, textarea({ class: "mono", rows: 2, value: filtersOf(before).join("\n") }), { hint: names.filtersHint, check: wrongSubjects });
  const deliver = field(names.deliver, select(names.delivers, { value: before.deliver_policy ?? "all", disabled: !isNew }));
  const start = field(names.start, line(String(before.opt_start_seq ?? before.opt_start_time ?? ""), { readonly: !isNew }), { hint: names.startHint, check: (value) => (startOf(deliver.value(), value) || !isNew ? "" : names.startWrong) });
  const drawStart = () => { start.element.hidden = !deliver.value().startsWith("by_"); };
  deliver.control.addEventListener("change", drawStart);
  drawStart();
  const ack = field(names.ack, select(names.acks.filter(([key]) => key !== "flow_control" || before.ack_policy === key), { value: before.ack_policy ?? "none", disabled: !isNew }));
  const wait = field(names.wait, line(typedDuration(before.ack_wait)), { hint: names.waitHint, check: wrongDuration });
  const maxDeliver = field(names.maxDeliver, line(typedCount(before.max_deliver)), { hint: names.maxDeliverHint, check: wrongCount });
  const backoff = field(names.backoff, line((before.backoff ?? []).map(typedDuration).join(", ")), { hint: names.backoffHint, check: (value) => (waitsOf(value) ? "" : streamText.wrongDuration) });
  const maxPending = field(names.maxPending, line(typedCount(before.max_ack_pending)), { hint: names.maxPendingHint, check: wrongCount });
  const inactive = field(names.inactive, line(typedDuration(before.inactive_threshold)), { hint: names.inactiveHint, check: wrongDuration });
  const target = field(names.target, line(before.deliver_subject ?? "", { class: "mono", readonly: !isNew && !before.deliver_subject }), { hint: names.targetHint });
  const group = field(names.group, line(before.deliver_group ?? "", { class: "mono" }));
  const dead = field(names.dead, line(before.metadata?.[DEAD_LETTERS] ?? "", { class: "mono" }), { hint: names.deadHint });
  const rest = field(names.rest, textarea({ class: "mono", rows: 5, value: isNew ? "" : restOf(before) }), { hint: names.restHint, check: (value) => jsonObject(value).problem });
  const checked = [name, filters, start, wait, maxDeliver, backoff, maxPending, inactive, rest];

  /** @returns {ConsumerConfig} */
  const config = () => {
    const wanted = subjectsOf(filters.value());
    const waits = waitsOf(backoff.value()) ?? [];
    const typed = jsonObject(rest.value()).value;
    const letters = dead.value().trim();
    const metadata = { ...(typed.metadata ?? {}), ...(letters ? { [DEAD_LETTERS]: letters } : {}) };
    const durable = isNew ? (ephemeral.control.checked ? undefined : name.value().trim()) : before.durable_name;
    const made = {
      name: isNew ? name.value().trim() : before.name, durable_name: durable, description: description.value().trim() || undefined,
      filter_subject: wanted.length === 1 ? wanted[0] : undefined, filter_subjects: wanted.length > 1 ? wanted : undefined,
      deliver_policy: deliver.value(), ...(isNew ? startOf(deliver.value(), start.value()) : pick(before, "opt_start_seq", "opt_start_time")),
      ack_policy: ack.value(), ack_wait: wait.value().trim() ? durationOf(wait.value()) : undefined, max_deliver: maxDeliver.value().trim() ? countOf(maxDeliver.value()) : isNew ? undefined : -1,
      backoff: waits.length ? waits : undefined, max_ack_pending: maxPending.value().trim() ? countOf(maxPending.value()) : before.max_ack_pending,
      inactive_threshold: inactive.value().trim() ? durationOf(inactive.value()) : undefined,
      deliver_subject: target.value().trim() || undefined, deliver_group: group.value().trim() || undefined,
      ...typed, metadata: Object.keys(metadata).length ? metadata : undefined,
    };
    return Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined));
  };
  return {
    fields: [
      h("fieldset", { class: "form columns" }, h("legend", {}, names.important), name.element, filters.element, deliver.element, start.element, ack.element, description.element),
      h("fieldset", { class: "form columns" }, h("legend", {}, names.delivery), wait.element, maxDeliver.element, backoff.element, maxPending.element, isHeadrace || before.metadata?.[DEAD_LETTERS] ? dead.element : null),
      h("details", {}, h("summary", {}, names.more), h("div", { class: "form" }, h("div", { class: "form columns" }, inactive.element, target.element, group.element), ephemeral.element, rest.element)),
    ],
    isRight: () => {
      const wrong = checked.filter((one) => !one.isRight());
      for (const one of wrong) one.element.closest("details")?.setAttribute("open", ""); // it may be folded away
      return wrong.length === 0;
    },
    config,
  };
}

/**
 * Where a consumer begins, by what a person typed; null where that is nothing.
 * @param {string} policy
 * @param {string} typed
 * @returns {{ opt_start_seq?: number, opt_start_time?: string } | null}
 */
function startOf(policy, typed) {
  if (policy === "by_start_sequence") return /^[1-9]\d{0,14}$/.test(typed.trim()) ? { opt_start_seq: Number(typed.trim()) } : null;
  if (policy !== "by_start_time") return {};
  const moment = momentOf(typed.trim());
  return moment ? { opt_start_time: moment.toISOString() } : null;
}

/** Waits with commas between, in ns; null where one is none. @param {string} typed */
function waitsOf(typed) {
  const waits = typed.split(",").map((one) => one.trim()).filter(Boolean).map(readDurationNs);
  return waits.every((wait) => wait !== null) ? waits : null;
}

/** The fields that the form does not have, as JSON. @param {ConsumerConfig} config */
function restOf(config) {
  const others = Object.fromEntries(Object.entries(config).filter(([name]) => !FORM.has(name)));
  const metadata = without(config.metadata ?? {}, DEAD_LETTERS);
  return JSON.stringify({ ...others, ...(Object.keys(metadata).length ? { metadata } : {}) }, null, 2);
}

/** @param {Record<string, any>} of @param {string} name */
function without(of, name) {
  return Object.fromEntries(Object.entries(of).filter(([key]) => key !== name));
}

/** @param {Record<string, any>} of @param {...string} names */
function pick(of, ...names) {
  return Object.fromEntries(names.filter((name) => name in of).map((name) => [name, of[name]]));
}
