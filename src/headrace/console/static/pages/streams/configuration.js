/** The configuration of a stream in words, its schemas, its metadata, and all of it as JSON. */

import { schemasOf } from "../../data/schema.js";
import { foreign, h, replace } from "../../dom/element.js";
import { bytes, count, durationNs } from "../../format.js";
import { text as common } from "../../text/common.js";
import { text } from "../../text/streams.js";
import { text as names } from "../../text/stream_forms.js";
import { button, card, copy, facts, onCommandLine, shellWord, status } from "../../ui/blocks.js";
import { jsonTree } from "../../ui/payload.js";

/** @typedef {import("../../nats/jetstream.js").StreamConfig} StreamConfig */

/**
 * @param {import("./one.js").StreamPlace} stream
 * @returns {import("./one.js").Part}
 */
export function showConfiguration({ link, name, info, host }) {
  let shown = "";
  /** @param {import("../../nats/jetstream.js").StreamInfo} now */
  const update = ({ config }) => {
    const wanted = JSON.stringify(config);
    if (wanted === shown) return;
    shown = wanted;
    replace(
      host,
      h("div", { class: "grid narrow" }, settings(config), limits(config), rules(config)),
      schemas(config, Boolean(link.headrace)),
      metadata(config),
      card(text.asJson, { actions: [button(text.copyJson, () => copy(JSON.stringify(config, null, 2)), { kind: "small", icon: "copy" })] }, jsonTree(config)),
      onCommandLine(`headrace stream info ${shellWord(name)} --json`, `headrace stream edit ${shellWord(name)} --max-age 7d --dry-run`),
    );
  };
  update(info);
  return { update };
}

/** @param {StreamConfig} config */
function settings(config) {
  const word = (/** @type {[string, string][]} */ words, /** @type {string | undefined} */ key) => words.find(([one]) => one === key)?.[1] ?? key ?? "–";
  return card(text.settings, {}, facts([
    [names.description, config.description ? foreign(config.description) : undefined],
    [names.subjects, config.subjects?.length ? h("ul", { class: "mono" }, config.subjects.map((subject) => h("li", {}, foreign(subject)))) : undefined],
    [names.storage, word(names.storages, config.storage)],
    [names.retention, word(names.retentions, config.retention)],
    [names.discard, word(names.discards, config.discard)],
    [names.replicas, count(config.num_replicas ?? 1)],
    [names.compression, config.compression && config.compression !== "none" ? config.compression : undefined],
    [names.duplicates, config.duplicate_window ? durationNs(config.duplicate_window) : undefined],
  ]));
}

/** @param {StreamConfig} config */
function limits(config) {
  const most = (/** @type {number | undefined} */ value, /** @type {(value: number) => string} */ shown) => (value !== undefined && value > 0 ? shown(value) : common.unlimited);
  return card(text.limits, {}, facts([
    [names.maxAge, config.max_age ? durationNs(config.max_age) : text.forever],
    [names.maxBytes, most(config.max_bytes, bytes)],
    [names.maxMsgs, most(config.max_msgs, count)],
    [names.perSubject, most(config.max_msgs_per_subject, count)],
    [names.maxSize, most(config.max_msg_size, bytes)],
  ]));
}

/** @param {StreamConfig} config */
function rules(config) {
  const said = (/** @type {unknown} */ isOn) => (isOn ? status("good", text.yes) : status("idle", text.no));
  return card(text.rules, {}, facts([
    [names.direct, said(config.allow_direct)],
    [names.rollup, said(config.allow_rollup_hdrs)],
    [names.ttl, said(config.allow_msg_ttl)],
    [names.denyDelete, said(config.deny_delete)],
    [names.denyPurge, said(config.deny_purge)],
    [text.sealed, said(config.sealed)],
  ]));
}

/**
 * @param {StreamConfig} config
 * @param {boolean} isHeadrace
 */
function schemas(config, isHeadrace) {
  const known = schemasOf(config.metadata);
  if (!known.schemas.length) return null;
  const rule = !isHeadrace ? status("info", text.schemaKept) : known.isChecked ? status("good", text.schemaChecked) : status("info", text.schemaUnchecked);
  return card(text.schema, {}, rule, known.schemas.map((one) =>
    h("div", { class: "stack" }, h("h3", {}, text.schemaWords(one.type, one.message), " ", foreign(one.filter ? text.schemaOf(one.filter) : known.schemas.length > 1 ? text.schemaOfOthers : text.schemaOfAll, "muted")), schemaBody(one)),
  ));
}

/** @param {import("../../data/schema.js").SubjectSchema} schema */
function schemaBody({ text: written }) {
  try {
    return jsonTree(JSON.parse(written));
  } catch {
    return h("pre", { class: "code" }, foreign(written)); // of Protobuf it is base64
  }
}

/** Entries of the metadata that are no schema. @param {StreamConfig} config */
function metadata({ metadata: all = {} }) {
  const entries = Object.entries(all).filter(([key]) => !key.startsWith("headrace.schema"));
  if (!entries.length) return null;
  return card(text.metadata, {}, h("dl", { class: "facts" }, entries.flatMap(([key, value]) => [h("dt", { class: "mono" }, foreign(key)), h("dd", { class: "mono" }, foreign(value))])));
}
