/** The configuration of a server: when it was read, what a reload would change, and the reload. */

import { to } from "../../app.js";
import { SELDOM } from "../../data/poll.js";
import { foreign, h, replace } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { clockTime } from "../../format.js";
import { Refused } from "../../nats/errors.js";
import { mayPublish } from "../../nats/rights.js";
import { configDifference, headraceVersion, reload } from "../../nats/servers.js";
import { explained } from "../../text/problems.js";
import { text } from "../../text/server.js";
import { button, card, commandLine, facts, linkButton, status, when } from "../../ui/blocks.js";
import { openDanger } from "../../ui/dialog.js";
import { empty, failure } from "../../ui/empty.js";

/** @typedef {import("../../nats/servers.js").ConfigDifference} ConfigDifference */
/** @typedef {import("../../nats/servers.js").Change} Change */
/** @typedef {import("../../nats/servers.js").Varz} Varz */
/** @typedef {import("../../nats/link.js").Link} Link */

const words = text.configuration;

/**
 * @param {import("../index.js").Place} place
 * @param {Link} link
 * @param {{ id: string, body: HTMLElement, follow: import("./one.js").Follow, askVarz: () => Promise<import("../../nats/system.js").FromServer<Varz>> }} options
 */
export function showConfiguration({ app, signal }, link, { id, body, follow, askVarz }) {
  const state = h("div");
  const change = h("div");
  const result = h("div", { role: "status", hidden: true });
  const actions = h("div", { class: "buttons" });
  const lame = h("div");
  let name = id;
  /** @type {Varz | null} */
  let varz = null;
  /** What is known of the file: null, where the server cannot tell; an error, where the file is wrong. @type {ConfigDifference | null | Error} */
  let known = null;
  replace(body, card(words.state, {}, state, result), card(words.difference, { flush: true, actions: [actions] }, change), lame);

  const told = (/** @type {HTMLElement} */ words) => {
    result.hidden = false;
    replace(result, words);
  };
  const draw = () => {
    const difference = known instanceof Error ? null : known;
    if (varz) replace(state, stateFacts(varz, difference));
    if (varz) replace(lame, lameDuck(headraceVersion(varz) ? "headrace serve" : "nats-server"));
    replace(
      actions,
      button(words.compare, () => void compare(), { kind: "small" }),
      !app.isReadOnly && button(words.reloadButton, () => ask(), { kind: "small danger", disabled: () => whyNot(link, id) }),
    );
  };
  const compare = async () => {
    try {
      known = await configDifference(link, id);
      if (!signal.aborted) replace(change, known ? differenceOf(known) : empty(words.notThere, words.notThereNext));
    } catch (error) {
      known = error instanceof Error ? error : new Error(String(error));
      if (!signal.aborted) replace(change, error instanceof Refused ? wrongFile(error) : failure(error));
    }
    draw();
  };
  const ask = () => {
    openDanger({
      title: words.reloadTitle(name), name, verb: words.reloadButton, doing: words.doing(name), done: words.done, signal,
      lost: lost(known),
      run: async () => {
        try {
          await reload(link, id);
          told(outcome(true, ""));
        } catch (error) {
          const { title, detail } = explained(error);
          told(outcome(false, detail ?? title));
          throw error;
        } finally {
          void compare();
        }
      },
    });
  };
  follow(askVarz, (answer) => {
    name = answer.server.name;
    varz = answer.data;
    draw();
  }, SELDOM / 2);
  void useStyles("server");
  draw();
  void compare();
}

/**
 * @param {Link} link
 * @param {string} id
 */
function whyNot(link, id) {
  const subject = `$SYS.REQ.SERVER.${id}.RELOAD`;
  return mayPublish(link, subject) ? "" : words.mayNot(subject);
}

/**
 * @param {Varz} varz
 * @param {ConfigDifference | null} difference
 */
function stateFacts(varz, difference) {
  return facts([
    [words.file, difference ? foreign(difference.file, "mono") : null],
    [words.loaded, when(varz.config_load_time)],
    [words.digest, varz.config_digest ? foreign(varz.config_digest, "mono") : null],
    [words.fileDigest, difference && difference.digest !== difference.loaded_digest ? foreign(difference.digest, "mono") : null],
  ]);
}

/** @param {ConfigDifference} difference */
function differenceOf({ differences, warnings }) {
  return h(
    "div",
    {},
    differences.length ? changeTable(differences) : empty(words.same, words.sameNext),
    differences.some((one) => one.needs_restart) && h("p", { class: "inset muted" }, words.restartNote),
    warnings.length > 0 && h("div", { class: "inset" }, h("strong", {}, words.warnings), h("ul", {}, warnings.map((one) => h("li", {}, foreign(one))))),
  );
}

/** @param {Change[]} changes */
function changeTable(changes) {
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "table difference", "aria-label": words.difference },
      h("thead", {}, h("tr", {}, [words.path, words.before, words.after, words.takes].map((label) => h("th", { scope: "col" }, label)))),
      h(
        "tbody",
        {},
        changes.map((one) =>
          h(
            "tr",
            {},
            h("td", { class: "mono" }, foreign(one.path)),
            ...(one.before !== null && one.before === one.after ? [h("td", { colspan: 2 }, words.secret)] : [valueCell(one.before), valueCell(one.after)]),
            h("td", {}, one.needs_restart ? status("warn", words.restart) : status("good", words.reload)),
          ),
        ),
      ),
    ),
  );
}

/** @param {string | null} value */
function valueCell(value) {
  return h("td", { class: "wrap-anywhere" }, value === null ? h("span", { class: "muted" }, words.nothing) : foreign(value, "mono"));
}

/** @param {Refused} error */
function wrongFile(error) {
  return h("div", { class: "empty", role: "alert" }, h("strong", {}, words.wrong), h("ul", {}, error.message.split("\n").map((line) => h("li", {}, foreign(line, "mono")))));
}

/**
 * What the dialog says before a reload.
 * @param {ConfigDifference | null | Error} known
 */
function lost(known) {
  if (known instanceof Error) return [words.reloadLost, foreign(known.message)];
  if (!known) return [words.reloadLost, words.reloadUnknown];
  if (!known.differences.length) return [words.reloadLost, words.same];
  return [words.reloadLost, words.changes(known.differences.length), ...known.differences.map((one) => foreign(one.text))];
}

/**
 * @param {boolean} isDone
 * @param {string} why
 */
function outcome(isDone, why) {
  const moment = clockTime(Date.now());
  return facts([[words.result, h("span", {}, isDone ? status("good", words.taken(moment)) : status("bad", words.refused(moment)), why && [h("br"), foreign(why)])]]);
}

/** @param {string} program */
function lameDuck(program) {
  return card(
    words.lame,
    {},
    h("p", { class: "muted" }, words.lameHint),
    commandLine(`${program} --signal ldm=PID`),
    h("div", { class: "buttons" }, linkButton(words.lameClients, to("connections"), { icon: "connections", kind: "small" })),
  );
}
