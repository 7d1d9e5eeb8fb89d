/** One server: its heading and parts, each with an address of its own. */

import { to } from "../../app.js";
import { OFTEN, SELDOM, poll } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { NoAnswer, NobodyThere } from "../../nats/errors.js";
import { healthOf, jetstreamOf, product, varzOf } from "../../nats/servers.js";
import { text } from "../../text/server.js";
import { linkButton, onCommandLine, pageHead, shellWord, tabs } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { showConfiguration } from "./configuration.js";
import { figuresOf } from "./figures.js";
import { drawHealth } from "./health.js";
import { optionsOf } from "./options.js";
import { storageOf } from "./storage.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {keyof typeof text.tabs} Part */

const PARTS = /** @type {Part[]} */ (Object.keys(text.tabs));

/**
 * @param {Place} place
 * @param {Link} link
 */
export function showServer(place, link) {
  const { host, path, app, signal } = place;
  const [id, asked] = path;
  const part = PARTS.find((one) => one === asked) ?? "overview";
  const known = app.watch.servers.get(id);
  const head = h("div");
  const body = h("div", { class: "stack" });
  const commands = h("div");
  /** @param {string} name @param {string} sub */
  const drawHead = (name, sub) => {
    replace(
      head,
      pageHead(foreign(name), { sub, crumb: { href: to("server"), label: text.all } }),
      tabs(PARTS.map((one) => ({ href: to("server", one === "overview" ? [id] : [id, one]), label: text.tabs[one], current: one === part }))),
    );
    replace(commands, onCommandLine(commandOf(part, name)));
  };
  drawHead(known?.server.name ?? id, "");
  replace(host, head, body, commands);
  const failed = (/** @type {unknown} */ error) => {
    const isGone = error instanceof NoAnswer || error instanceof NobodyThere;
    replace(body, isGone ? empty(text.gone, text.goneNext, linkButton(text.all, to("server"))) : failure(error));
  };
  /** @type {Follow} */
  const follow = (ask, show, every) => {
    poll({ every, signal, ask, show, failed });
  };
  const askVarz = async () => {
    const answer = await varzOf(link, id);
    drawHead(answer.server.name, product(answer.data));
    return answer;
  };
  if (part === "overview") follow(askVarz, figuresOf(body), OFTEN);
  else if (part === "options") follow(askVarz, optionsOf(body), SELDOM);
  else if (part === "health") {
    follow(askVarz, () => {}, SELDOM);
    follow(() => healthOf(link, id), (answer) => drawHealth(body, answer.data), OFTEN);
  } else if (part === "storage") {
    follow(askVarz, () => {}, SELDOM);
    follow(() => jetstreamOf(link, id), storageOf(body), OFTEN);
  } else showConfiguration(place, link, { id, body, follow, askVarz });
}

/**
 * Ask for something and show it, again and again.
 * @typedef {<T>(ask: () => Promise<T>, show: (answer: T) => void, every: number) => void} Follow
 */

/**
 * @param {Part} part
 * @param {string} name
 */
function commandOf(part, name) {
  const word = shellWord(name);
  return { overview: `headrace server info ${word}`, health: `headrace server report health --name ${word}`, options: `headrace server request varz --name ${word}`, storage: `headrace server request jsz --name ${word}`, configuration: `headrace server reload ${word}` }[part];
}
