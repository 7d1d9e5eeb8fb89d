/** What takes messages away, or the way to change them: purging, sealing, deleting. Each asks before. */

import { foreign, h } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { deleteStream, purgeStream, streamInfo, updateStream } from "../../nats/jetstream.js";
import { noted } from "../../nats/own_actions.js";
import { text } from "../../text/stream_forms.js";
import { onCommandLine, shellWord } from "../../ui/blocks.js";
import { openDanger, openForm } from "../../ui/dialog.js";
import { field, input, select } from "../../ui/fields.js";

/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../index.js").Place} Place */

/**
 * Ask what is to go, then whether it is to go.
 *
 * @param {Place} place
 * @param {Link} link
 * @param {StreamInfo} info
 * @param {() => void} done
 * @param {string} [subject]
 */
export function openPurge(place, link, info, done, subject = "") {
  const name = info.config.name;
  const wanted = field(text.purgeSubject, input({ class: "mono", value: subject }), { hint: text.purgeSubjectHint });
  const how = field(text.purgeHow, select([["all", text.purgeAll], ["keep", text.purgeKeep], ["seq", text.purgeSeq]]));
  const number = field(text.purgeKeepCount, input({ inputmode: "numeric", class: "short" }), { check: (value) => (/^[1-9]\d{0,14}$/.test(value.trim()) ? "" : text.purgeNumberWrong) });
  number.element.hidden = true;
  how.control.addEventListener("change", () => {
    number.element.hidden = how.value() === "all";
    const label = number.element.querySelector("label");
    if (label) label.textContent = how.value() === "keep" ? text.purgeKeepCount : text.purgeSequence;
  });
  openForm(text.purgeTitle(name), {
    fields: [wanted.element, how.element, number.element],
    verb: text.purgeNext,
    kind: "",
    signal: place.signal,
    note: onCommandLine(`headrace stream purge ${shellWord(name)} --keep 1000`),
    isRight: () => how.value() === "all" || number.isRight(),
    run: async () => {
      const filter = wanted.value().trim();
      const options = { ...(filter ? { filter } : {}), ...(how.value() === "all" ? {} : { [how.value()]: Number(number.value()) }) };
      const matching = filter ? await matchingMessages(link, name, filter) : info.state.messages;
      queueMicrotask(() => askPurge(place, link, name, options, matching, done));
    },
  });
}

/**
 * How many messages have subjects that match.
 * @param {Link} link
 * @param {string} name
 * @param {string} filter
 */
async function matchingMessages(link, name, filter) {
  const { state } = await streamInfo(link, name, { subjects_filter: filter });
  return Object.values(state.subjects ?? {}).reduce((sum, messages) => sum + messages, 0);
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {string} name
 * @param {{ filter?: string, keep?: number, seq?: number }} options
 * @param {number} matching
 * @param {() => void} done
 */
function askPurge(place, link, name, options, matching, done) {
  const { filter = "", keep, seq } = options;
  const what = keep !== undefined ? text.purgeKeeps(count(keep)) : seq !== undefined ? text.purgeBefore(count(seq)) : text.purgeEvery;
  openDanger({
    title: text.purgeTitle(name), lost: [foreign(text.purgeLost(count(matching), filter)), what], name, verb: text.purge, doing: text.purging(name), done: text.purged(name),
    signal: place.signal,
    run: async () => { await noted(link, "streamPurge", [name], purgeStream(link, name, options)); done(); },
  });
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {StreamInfo} info
 * @param {() => void} gone
 */
export function openDelete(place, link, info, gone) {
  const { config, state } = info;
  const { name } = config;
  openDanger({
    title: text.deleteTitle(name), name, verb: text.remove, doing: text.deleting(name), done: text.deleted(name),
    lost: [
      text.deleteLost(count(state.messages), bytes(state.bytes)),
      ...(state.consumer_count ? [text.deleteConsumers(count(state.consumer_count))] : []),
      ...(/^(KV|OBJ)_/.test(name) ? [text.deleteBucket] : []),
      ...(config.subjects?.length ? [h("span", {}, text.deletePublishers, " ", foreign(config.subjects.join(", "), "mono"))] : []),
    ],
    run: async () => {
      await deleteStream(link, name);
      if (!place.signal.aborted) gone();
    },
  });
}

/**
 * @param {Place} place
 * @param {Link} link
 * @param {StreamInfo} info
 * @param {() => void} done
 */
export function openSeal(place, link, info, done) {
  const { name } = info.config;
  openDanger({
    title: text.sealTitle(name), lost: text.sealLost, name, verb: text.seal, doing: text.sealing(name), done: text.sealed(name), signal: place.signal,
    run: async () => { await updateStream(link, { ...info.config, sealed: true }); done(); },
  });
}
