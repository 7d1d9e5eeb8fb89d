/** One stream: its heading, what can be done to it, and the part that the address names. */

import { to } from "../../app.js";
import { KEPT, OFTEN, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { brief } from "../../format.js";
import { Refused } from "../../nats/errors.js";
import { mayPublishAnything } from "../../nats/rights.js";
import { stepDown, streamInfo } from "../../nats/jetstream.js";
import { text } from "../../text/streams.js";
import { text as formText } from "../../text/stream_forms.js";
import { button, linkButton, pageHead, tabs, tag } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { menu } from "../../ui/menu.js";
import { attempt } from "../../ui/toasts.js";
import { openBackup } from "./backup.js";
import { showConfiguration } from "./configuration.js";
import { showConsumers } from "./consumers.js";
import { openCopy, openEdit } from "./form.js";
import { kindsOf } from "./list.js";
import { showMessages } from "./messages.js";
import { showOverview } from "./overview.js";
import { openPublish } from "./publish.js";
import { openDelete, openPurge, openSeal } from "./removal.js";
import { forbidden } from "./rights.js";
import { wrongName } from "./values.js";

/** @typedef {import("../../nats/jetstream.js").StreamInfo} StreamInfo */
/** @typedef {import("../index.js").Place} Place */
/** @typedef {{ place: Place, link: import("../../nats/link.js").Link, name: string, info: StreamInfo, host: HTMLElement, reload: () => void }} StreamPlace */
/** @typedef {{ update: (info: StreamInfo) => void }} Part */

const PARTS = { overview: showOverview, messages: showMessages, consumers: showConsumers, configuration: showConfiguration };

/** @param {Place} place */
export async function showStream(place) {
  void useStyles("streams");
  const { host, app, signal, query } = place;
  const link = /** @type {import("../../nats/link.js").Link} */ (app.account);
  const [name, asked = ["from", "seq", "subject", "find"].some((key) => query.has(key)) ? "messages" : "overview"] = place.path;
  const chosen = /** @type {keyof typeof PARTS} */ (asked in PARTS ? asked : "overview");
  const head = h("div", { class: "stack" });
  const body = h("div", { class: "stack" });
  replace(host, head, body);
  if (wrongName(name)) return replace(body, noStream(name));

  /** @type {Part | null} */
  let part = null;
  let shownHead = "";
  /** @param {StreamInfo} info */
  const show = (info) => {
    const wanted = JSON.stringify([info.config, info.state.consumer_count, brief(info.state.messages)]);
    const isBusy = head.querySelector('.menu [aria-expanded="true"]') !== null;
    if (wanted !== shownHead && !isBusy) {
      shownHead = wanted;
      replace(head, heading(place, link, info, reload), parts(info, chosen));
    }
    if (part) part.update(info);
    else part = PARTS[chosen]({ place, link, name, info, host: body, reload });
  };
  /** @param {unknown} error @returns {unknown} */
  const failed = (error) => {
    if (error instanceof Refused && error.errorCode === 10059) {
      part = null;
      replace(head);
      return replace(body, noStream(name));
    }
    return part ? KEPT : replace(body, h("div", { class: "card" }, failure(error, button(text.again, reload))));
  };
  const reload = poll({ every: OFTEN, ask: () => streamInfo(link, name), show, failed, signal });
  return undefined;
}

/** @param {string} name */
function noStream(name) {
  return h("div", { class: "card" }, empty(text.gone, h("p", {}, foreign(name)), h("p", {}, text.goneNext), linkButton(text.back, to("streams"))));
}

/**
 * @param {Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {StreamInfo} info
 * @param {() => void} reload
 */
function heading(place, link, info, reload) {
  const { name, description } = info.config;
  const isReadOnly = place.app.isReadOnly;
  const gone = () => place.go(to("streams"));
  const why = () => reasons(link, info);
  const actions = isReadOnly
    ? []
    : [
        button(text.publish, () => openPublish(link, info, { done: reload }), { kind: "main", icon: "upload", disabled: () => why().publish }),
        button(text.purge, () => openPurge(place, link, info, reload), { disabled: () => why().purge }),
        menu(text.more, () => [
          item(text.edit, () => openEdit(place, info, reload), why().edit),
          item(text.copy, () => openCopy(place, info), forbidden(link, "STREAM.CREATE", "NEW")),
          item(text.backup, () => openBackup(place, link, info), forbidden(link, "STREAM.SNAPSHOT", name)),
          (info.cluster?.replicas?.length ?? 0) > 0 && item(text.stepDown, () => void attempt(() => stepDown(link, name), formText.stepDownDone), forbidden(link, "STREAM.LEADER.STEPDOWN", name)),
          item(text.seal, () => openSeal(place, link, info, reload), why().edit),
          item(text.remove, () => openDelete(place, link, info, gone), forbidden(link, "STREAM.DELETE", name)),
        ], { kind: "", icon: "more" }),
      ];
  const kinds = kindsOf(info);
  const sub = h("span", { class: "row" }, description ? foreign(description) : info.config.subjects?.length ? foreign(info.config.subjects.join(", "), "mono") : null, kinds.map(tag));
  return pageHead(foreign(name), { sub, actions, crumb: { href: to("streams"), label: text.back } });
}

/**
 * Why each action cannot be, or "".
 * @param {import("../../nats/link.js").Link} link
 * @param {StreamInfo} info
 */
function reasons(link, { config }) {
  const sealed = config.sealed ? text.denied.sealed : "";
  return {
    publish: sealed || (config.mirror ? text.denied.mirror : config.subjects?.length ? "" : text.denied.sources) || (mayPublishAnything(link) ? "" : text.noRight(config.subjects?.[0] ?? config.name)),
    purge: sealed || (config.deny_purge ? text.denied.purge : "") || forbidden(link, "STREAM.PURGE", config.name),
    edit: sealed || forbidden(link, "STREAM.UPDATE", config.name),
  };
}

/**
 * @param {string} label
 * @param {() => void} press
 * @param {string} disabled the reason, or ""
 */
function item(label, press, disabled) {
  return h("button", { type: "button", onclick: press, disabled: Boolean(disabled), title: disabled || null }, label);
}

/**
 * @param {StreamInfo} info
 * @param {string} chosen
 */
function parts({ config, state }, chosen) {
  const counts = /** @type {Record<string, string>} */ ({ messages: brief(state.messages), consumers: brief(state.consumer_count) });
  return tabs(
    Object.entries(text.tabs).map(([part, label]) => ({
      href: to("streams", [config.name, part]), label, count: counts[part], current: part === chosen,
    })),
  );
}
