/** The form of a bucket, of keys or of objects: to make one, or to change it after the difference was seen. */

import { bytes, readBytes, readDurationNs } from "../../format.js";
import { h, replace } from "../../dom/element.js";
import { isBucketName } from "../../nats/buckets.js";
import { createStream, updateStream } from "../../nats/jetstream.js";
import { MOST_HISTORY } from "../../nats/keyvalue.js";
import { text } from "../../text/buckets.js";
import { changesBetween, changesTable } from "../../ui/changes.js";
import { openForm } from "../../ui/dialog.js";
import { checkbox, field, input, select } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../../nats/buckets.js").BucketSettings} BucketSettings */

/**
 * Ask for a new bucket.
 *
 * @param {Link} link
 * @param {{ title: string, hasKeys: boolean, config: (name: string, settings: BucketSettings) => StreamConfig, signal: AbortSignal, done: (name: string) => void }} options
 */
export function openNewBucket(link, { title, hasKeys, config, signal, done }) {
  const name = field(text.name, input({ class: "mono", maxlength: 200, required: true }), { hint: text.nameHint, check: (value) => (isBucketName(value) ? "" : text.nameWrong) });
  const settings = settingsFields(hasKeys, null);
  openForm(title, {
    signal,
    wide: true,
    verb: text.create,
    fields: [name.element, ...settings.elements],
    isRight: () => [name.isRight(), settings.isRight()].every(Boolean),
    run: async () => {
      await createStream(link, config(name.value(), settings.read()));
      say(text.made(name.value()));
      done(name.value());
    },
  });
}

/**
 * Change a bucket; the form shows what changes in the configuration of its stream as one types.
 *
 * @param {Link} link
 * @param {{ title: string, bucket: string, hasKeys: boolean, config: StreamConfig, changed: (config: StreamConfig, settings: BucketSettings) => StreamConfig, signal: AbortSignal,
 *   done: () => void }} options
 */
export function openEditBucket(link, { title, bucket, hasKeys, config, changed, signal, done }) {
  const settings = settingsFields(hasKeys, config);
  const preview = h("div");
  const draw = () => {
    if (!settings.isReadable()) return;
    replace(preview, changesTable(changesBetween(config, changed(config, settings.read()))));
  };
  draw();
  const dialog = openForm(title, {
    signal,
    wide: true,
    verb: text.save,
    fields: [...settings.elements, h("div", { class: "field" }, h("span", { class: "label" }, text.change), preview)],
    isRight: () => settings.isRight(),
    run: async () => {
      await updateStream(link, changed(config, settings.read()));
      say(text.changed(bucket));
      done();
    },
  });
  dialog.addEventListener("input", draw);
}

/**
 * The fields of a bucket's settings; of one that is there its storage cannot change.
 *
 * @param {boolean} hasKeys
 * @param {StreamConfig | null} config
 */
function settingsFields(hasKeys, config) {
  const description = field(text.description, input({ value: config?.description ?? "", maxlength: 4096 }));
  const history = field(text.history, input({ value: config?.max_msgs_per_subject ?? 1, inputmode: "numeric" }), { hint: text.historyHint, check: historyProblem });
  const ttl = field(text.ttl, input({ value: spelled(config?.max_age) }), { hint: text.ttlHint, check: (value) => durationProblem(value) });
  const markerTtl = field(text.markerTtl, input({ value: spelled(config?.subject_delete_marker_ttl) }), { hint: text.markerTtlHint, check: (value) => durationProblem(value) });
  const maxBytes = field(text.maxBytes, input({ value: limit(config?.max_bytes) }), { hint: text.sizeHint, check: sizeProblem });
  const maxValue = field(text.maxValue, input({ value: limit(config?.max_msg_size) }), { hint: text.sizeHint, check: sizeProblem });
  const replicas = field(text.replicas, select([1, 2, 3, 4, 5].map((number) => [String(number), String(number)]), { value: config?.num_replicas ?? 1 }));
  const storage = field(text.storage, select([["file", text.file], ["memory", text.memory]]));
  const compression = checkbox(text.compression, { checked: config?.compression === "s2" });
  const used = [description, ...(hasKeys ? [history] : []), ttl, ...(hasKeys ? [markerTtl] : []), maxBytes, ...(hasKeys ? [maxValue] : []), replicas, ...(config ? [] : [storage])];
  const read = () => ({
    description: description.value().trim(),
    ttl: ns(ttl.value()),
    maxBytes: readBytes(maxBytes.value()) ?? 0,
    replicas: Number(replicas.value()),
    compression: compression.control.checked,
    ...(config ? {} : { storage: storage.value() }),
    ...(hasKeys ? { history: Number(history.value()), markerTtl: ns(markerTtl.value()), maxValue: readBytes(maxValue.value()) ?? 0 } : {}),
  });
  return {
    elements: [h("div", { class: "form columns" }, used.map((one) => one.element)), compression.element],
    isRight: () => used.map((one) => one.isRight()).every(Boolean),
    isReadable: () => [durationProblem(ttl.value()), durationProblem(markerTtl.value()), sizeProblem(maxBytes.value()), sizeProblem(maxValue.value()), historyProblem(history.value())].every((problem) => !problem),
    read,
  };
}

/** @param {string} value */
function historyProblem(value) {
  return /^\d+$/.test(value) && Number(value) >= 1 && Number(value) <= MOST_HISTORY ? "" : text.historyWrong;
}

/** @param {string} value */
export function durationProblem(value) {
  if (!value.trim()) return "";
  const found = readDurationNs(value);
  if (found === null) return text.durationWrong;
  return found < 1e9 ? text.secondWrong : "";
}

/** @param {string} value */
function sizeProblem(value) {
  return !value.trim() || readBytes(value) !== null ? "" : text.sizeWrong;
}

/** @param {string} value */
export function ns(value) {
  return value.trim() ? readDurationNs(value) ?? 0 : 0;
}

/** @param {number | undefined} value */
function limit(value) {
  if (!value || value <= 0) return "";
  const short = bytes(value).replace(" ", "");
  return readBytes(short) === value ? short : String(value);
}

/**
 * A duration as it is typed: 1h30m; nothing for none.
 * @param {number | undefined} value ns
 */
export function spelled(value) {
  if (!value) return "";
  let left = value / 1e9;
  let words = "";
  for (const [unit, size] of /** @type {const} */ ([["d", 86_400], ["h", 3_600], ["m", 60]])) {
    const whole = Math.floor(left / size);
    if (whole) words += `${whole}${unit}`;
    left -= whole * size;
  }
  return left ? `${words}${left}s` : words;
}
