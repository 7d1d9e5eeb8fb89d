/** The form of a stream's configuration: making one, editing one with the difference shown, copying one. */

import { to } from "../../app.js";
import { h } from "../../dom/element.js";
import { createStream, updateStream } from "../../nats/jetstream.js";
import { text } from "../../text/stream_forms.js";
import { onCommandLine, shellWord } from "../../ui/blocks.js";
import { openChanges } from "../../ui/changes.js";
import { openForm } from "../../ui/dialog.js";
import { checkbox, field, input, select, textarea } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";
import {
  countOf, durationOf, jsonObject, sizeOf, subjectsOf, typedCount, typedDuration, typedSize, wrongCount, wrongDuration, wrongName, wrongSize, wrongSubjects,
} from "./values.js";

/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../index.js").Place} Place */

/** Fields that the form has; the others are kept as they are, or come from the JSON. */
const TICKS = /** @type {const} */ (["allow_direct", "allow_rollup_hdrs", "allow_msg_ttl", "deny_delete", "deny_purge"]);

/** @param {Place} place */
export function openCreate(place) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const form = configForm({ name: "", allow_direct: true }, { isNew: true });
  openForm(text.createTitle, {
    fields: form.fields, verb: text.create, wide: true, signal: place.signal, isRight: form.isRight,
    note: onCommandLine("headrace stream add ORDERS --subjects 'orders.>' --allow direct"),
    run: async () => {
      const { config } = await createStream(link, form.config());
      say(text.created(config.name));
      place.go(to("streams", [config.name]));
    },
  });
}

/**
 * @param {Place} place
 * @param {StreamInfo} info
 * @param {() => void} done
 */
export function openEdit(place, info, done) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const { name } = info.config;
  const form = configForm(info.config, { isNew: false });
  openForm(text.editTitle(name), {
    fields: form.fields, verb: text.preview, wide: true, signal: place.signal, isRight: form.isRight,
    note: onCommandLine(`headrace stream edit ${shellWord(name)} --max-age 7d`),
    run: async () => {
      const config = form.config();
      queueMicrotask(() => openChanges(text.changesTitle(name), {
        before: info.config, after: config, verb: text.apply, signal: place.signal,
        run: async () => {
          await updateStream(link, config);
          say(text.changed(name));
          done();
        },
      }));
    },
  });
}

/**
 * @param {Place} place
 * @param {StreamInfo} info
 */
export function openCopy(place, info) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const { name } = info.config;
  const { subjects, ...rest } = info.config;
  const copyName = field(text.name, input({ class: "mono", value: `${name}_COPY` }), { check: wrongName });
  const copySubjects = field(text.subjects, textarea({ class: "mono", rows: 2 }), { hint: text.subjectsHint, check: wrongSubjects });
  openForm(text.copyTitle(name), {
    fields: [copyName.element, subjects ? copySubjects.element : null], verb: text.copy, signal: place.signal,
    isRight: () => copyName.isRight() && copySubjects.isRight(),
    note: h("div", { class: "stack" }, h("p", { class: "muted" }, text.copyNote), onCommandLine(`headrace stream copy ${shellWord(name)} ${shellWord(`${name}_COPY`)} --data`)),
    run: async () => {
      const wanted = subjectsOf(copySubjects.value());
      const { config } = await createStream(link, { ...rest, name: copyName.value().trim(), ...(wanted.length ? { subjects: wanted } : {}), sealed: false });
      say(text.created(config.name));
      place.go(to("streams", [config.name]));
    },
  });
}

/**
 * The fields of a configuration, and what they make of it.
 *
 * @param {StreamConfig} before
 * @param {{ isNew: boolean }} options
 */
function configForm(before, { isNew }) {
  const line = (/** @type {string} */ value, attributes = {}) => input({ value, ...attributes });
  const name = field(text.name, line(before.name, { class: "mono", readonly: !isNew }), { check: wrongName });
  const description = field(text.description, line(before.description ?? ""));
  const subjects = field(text.subjects, textarea({ class: "mono", rows: 2, value: (before.subjects ?? []).join("\n") }), { hint: text.subjectsHint, check: wrongSubjects });
  const storage = field(text.storage, select(text.storages, { value: before.storage ?? "file", disabled: !isNew }));
  const retention = field(text.retention, select(text.retentions, { value: before.retention ?? "limits" }));
  const discard = field(text.discard, select(text.discards, { value: before.discard ?? "old" }));
  const maxAge = field(text.maxAge, line(typedDuration(before.max_age)), { hint: text.maxAgeHint, check: wrongDuration });
  const maxBytes = field(text.maxBytes, line(typedSize(before.max_bytes)), { hint: text.maxBytesHint, check: wrongSize });
  const maxMsgs = field(text.maxMsgs, line(typedCount(before.max_msgs)), { hint: text.maxMsgsHint, check: wrongCount });
  const perSubject = field(text.perSubject, line(typedCount(before.max_msgs_per_subject)), { hint: text.perSubjectHint, check: wrongCount });
  const maxSize = field(text.maxSize, line(typedSize(before.max_msg_size)), { hint: text.maxSizeHint, check: wrongSize });
  const duplicates = field(text.duplicates, line(typedDuration(before.duplicate_window)), { hint: text.duplicatesHint, check: wrongDuration });
  const replicas = field(text.replicas, select([["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["5", "5"]], { value: String(before.num_replicas ?? 1) }));
  const compression = checkbox(text.compression, { checked: before.compression === "s2" });
  const ticks = {
    allow_direct: checkbox(text.direct, { checked: before.allow_direct, hint: text.directHint }),
    allow_rollup_hdrs: checkbox(text.rollup, { checked: before.allow_rollup_hdrs, hint: text.rollupHint }),
    allow_msg_ttl: checkbox(text.ttl, { checked: before.allow_msg_ttl, hint: text.ttlHint }),
    deny_delete: checkbox(text.denyDelete, { checked: before.deny_delete, hint: text.forGood }),
    deny_purge: checkbox(text.denyPurge, { checked: before.deny_purge, hint: text.forGood }),
  };
  const rest = field(text.rest, textarea({ class: "mono", rows: 5, value: isNew ? "" : restOf(before) }), { hint: text.restHint, check: (value) => jsonObject(value).problem });
  const checked = [name, subjects, maxAge, maxBytes, maxMsgs, perSubject, maxSize, duplicates, rest];

  /** @returns {StreamConfig} */
  const config = () => {
    const wanted = subjectsOf(subjects.value());
    /** @type {Record<string, unknown>} */
    const made = {
      name: name.value().trim(), description: description.value().trim() || undefined, subjects: wanted.length ? wanted : undefined,
      storage: storage.value(), retention: retention.value(), discard: discard.value(),
      max_age: durationOf(maxAge.value()), max_bytes: sizeOf(maxBytes.value()), max_msgs: countOf(maxMsgs.value()),
      max_msgs_per_subject: countOf(perSubject.value()), max_msg_size: sizeOf(maxSize.value()),
      duplicate_window: duplicates.value().trim() ? durationOf(duplicates.value()) : undefined,
      num_replicas: Number(replicas.value()), compression: compression.control.checked ? "s2" : before.compression ? "none" : undefined,
      ...jsonObject(rest.value()).value,
    };
    for (const tick of TICKS) if (!(tick in made)) made[tick] = ticks[tick].control.checked || (tick in before ? false : undefined);
    return /** @type {StreamConfig} */ (Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)));
  };
  return {
    fields: [
      h("fieldset", { class: "form columns" }, h("legend", {}, text.important), name.element, subjects.element, storage.element, retention.element, description.element),
      h("fieldset", { class: "form columns" }, h("legend", {}, text.limits), maxAge.element, maxBytes.element, maxMsgs.element, perSubject.element, maxSize.element, discard.element, duplicates.element, replicas.element),
      h("details", { open: false }, h("summary", {}, text.more), h("div", { class: "form" }, Object.values(ticks).map((one) => one.element), compression.element, rest.element)),
    ],
    isRight: () => {
      const wrong = checked.filter((one) => !one.isRight());
      for (const one of wrong) one.element.closest("details")?.setAttribute("open", ""); // it may be folded away
      return wrong.length === 0;
    },
    config,
  };
}

const FORM = new Set([
  "name", "description", "subjects", "storage", "retention", "discard", "max_age", "max_bytes", "max_msgs", "max_msgs_per_subject", "max_msg_size",
  "duplicate_window", "num_replicas", "compression", ...TICKS,
]);

/** The fields that the form does not have, as JSON. @param {StreamConfig} config */
function restOf(config) {
  return JSON.stringify(Object.fromEntries(Object.entries(config).filter(([name]) => !FORM.has(name))), null, 2);
}
