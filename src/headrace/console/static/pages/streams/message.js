/** One stored message in the panel at the side: where it is, headers, payload, how it fits the schema; deleting it. */

import { to } from "../../app.js";
import { judge, formOf, schemaFor, schemasOf } from "../../data/schema.js";
import { foreign, h } from "../../dom/element.js";
import { saveFile } from "../../ui/download.js";
import { bytes, count } from "../../format.js";
import { deleteMessage, storedMessage } from "../../nats/stored.js";
import { text } from "../../text/stream_messages.js";
import { text as streamText } from "../../text/streams.js";
import { button, copy, facts, onCommandLine, shellWord, status, when } from "../../ui/blocks.js";
import { openDanger, openPanel } from "../../ui/dialog.js";
import { empty } from "../../ui/empty.js";
import { payloadView } from "../../ui/payload.js";
import { openPublish } from "./publish.js";
import { forbidden } from "./rights.js";

/** @typedef {import("../../nats/jetstream.js").StoredMessage} StoredMessage */
/** @typedef {import("./one.js").StreamPlace} StreamPlace */

/**
 * @param {StreamPlace} stream
 * @param {StoredMessage} message
 * @param {{ closed: () => void, changed: () => void }} options
 */
export function openMessage(stream, message, { closed, changed }) {
  const { name, info, place } = stream;
  const sequence = String(message.sequence);
  const schema = schemaFor(schemasOf(info.config.metadata), message.subject);
  const verdict = schema && judge(schema, message.data);
  const panel = openPanel(
    text.message(count(message.sequence)),
    { closed, signal: place.signal },
    facts([
      [text.columns.subject, h("a", { href: to("streams", [name, "messages"], { subject: message.subject }) }, foreign(message.subject, "mono"))],
      [text.columns.time, when(message.time)],
      [text.columns.size, bytes(message.data.length)],
      [streamText.schema, verdict && h("span", { class: "row" }, verdict.fits === true ? status("good", text.fits) : verdict.fits === false ? status("bad", foreign(text.misfits(verdict.why))) : status("idle", text.notJudged(verdict.why)))],
    ]),
    h("h3", {}, text.headers),
    message.headers.length
      ? h("dl", { class: "facts mono" }, message.headers.flatMap(([key, value]) => [h("dt", {}, foreign(key)), h("dd", {}, foreign(value))]))
      : h("p", { class: "muted" }, text.noHeaders),
    h("h3", {}, text.payload),
    payloadView(message.data, { form: formOf(schema) }),
    h("footer", {}, actions(stream, message, changed, () => panel.close())),
    onCommandLine(`headrace stream get ${shellWord(name)} ${sequence}`),
  );
  return panel;
}

/**
 * @param {StreamPlace} stream
 * @param {StoredMessage} message
 * @param {() => void} changed
 * @param {() => void} close
 */
function actions({ name, info, link, place }, message, changed, close) {
  const sequence = count(message.sequence);
  const { config } = info;
  const why = () => (config.sealed && streamText.denied.sealed) || (config.deny_delete && streamText.denied.delete) || forbidden(link, "STREAM.MSG.DELETE", name);
  const address = `${location.origin}${location.pathname}${to("streams", [name, "messages"], { seq: message.sequence })}`;
  const remove = () => {
    close();
    openDanger({
      title: text.removeTitle(sequence), lost: [foreign(text.removeLost(message.subject))], name: String(message.sequence), verb: text.remove,
      doing: text.removing(sequence), done: text.removed, signal: place.signal,
      run: async () => { await deleteMessage(link, name, message.sequence); changed(); },
    });
  };
  return [
    h("span", { class: "start row" }, button(text.link, () => copy(address), { icon: "copy" }), button(text.download, () => saveFile(`${name}-${message.sequence}`, [/** @type {BlobPart} */ (message.data)]), { icon: "download" })),
    !place.app.isReadOnly && !config.mirror && button(text.again, () => openPublish(link, info, { message, done: changed }), { icon: "edit", disabled: config.sealed ? streamText.denied.sealed : "" }),
    !place.app.isReadOnly && button(text.remove, remove, { kind: "danger", icon: "trash", disabled: why }),
  ];
}

/**
 * The message with a sequence, or what to say where there is none.
 * @param {StreamPlace} stream
 * @param {number} sequence
 * @param {{ closed: () => void, changed: () => void }} options
 */
export async function openSequence(stream, sequence, options) {
  const message = await storedMessage(stream.link, stream.info.config, { seq: sequence });
  if (message) return openMessage(stream, message, options);
  return openPanel(text.message(count(sequence)), { closed: options.closed, signal: stream.place.signal }, empty(text.messageGone, h("p", {}, text.messageGoneNext)));
}
