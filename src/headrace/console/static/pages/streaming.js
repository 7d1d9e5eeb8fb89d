/** Streaming: channels and clients of NATS Streaming (STAN), and one channel with its messages and subscriptions. */

import { to } from "../app.js";
import { foreign, h, replace } from "../dom/element.js";
import { NobodyThere } from "../nats/errors.js";
import { USUAL_CLUSTER, ping } from "../nats/stan.js";
import { text } from "../text/streaming.js";
import { button, card, pageHead } from "../ui/blocks.js";
import { empty } from "../ui/empty.js";
import { field, input } from "../ui/fields.js";
import { showChannel } from "./streaming/channel.js";
import { showLists } from "./streaming/lists.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/link.js").Link} Link */

/** @param {Place} place */
export async function show(place) {
  const { host, path, query, app, go } = place;
  const link = /** @type {Link} */ (app.account);
  const [cluster, channel] = path;
  if (cluster === undefined) {
    if (!query.has("choose") && (await answers(link, USUAL_CLUSTER))) go(to("streaming", [USUAL_CLUSTER]));
    else replace(host, pageHead("Streaming"), chooser(go, query.has("choose") ? "" : text.absent));
    return;
  }
  if (!isCluster(cluster) || !(await answers(link, cluster))) {
    replace(host, pageHead("Streaming", { sub: foreign(cluster) }), chooser(go, text.noSuch(cluster), cluster));
    return;
  }
  if (channel === undefined) showLists(place, link, cluster);
  else await showChannel(place, link, cluster, channel);
}

/**
 * Raises: NoRight and the like, which the shell shows.
 *
 * @param {Link} link
 * @param {string} cluster
 */
async function answers(link, cluster) {
  try {
    return await ping(link, cluster);
  } catch (error) {
    if (error instanceof NobodyThere) return false;
    throw error;
  }
}

/** @param {string} cluster */
function isCluster(cluster) {
  return /^[\w-]+$/.test(cluster);
}

/**
 * @param {(href: string) => void} go
 * @param {string} why nothing is shown; "": a person wants another one
 * @param {string} [before]
 */
function chooser(go, why, before = "") {
  const name = field(text.cluster, input({ class: "medium mono", name: "cluster", value: before }), { hint: text.clusterHint, check: (value) => (isCluster(value.trim()) ? "" : text.clusterWrong) });
  const form = h(
    "form",
    { class: "form", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); if (name.isRight()) go(to("streaming", [name.value().trim()])); } },
    name.element,
    h("div", { class: "buttons" }, h("button", { class: "button main", type: "submit" }, text.open)),
  );
  return card("", {}, why && empty(why, h("p", {}, text.absentNext)), form);
}

/** @param {(href: string) => void} go */
export function changeButton(go) {
  return button(text.change, () => go(to("streaming", [], { choose: "1" })), { kind: "small" });
}
