/** Alerts: what servers and JetStream told since the tab was opened, grouped, and what is not right by the figures. */

import { to } from "../app.js";
import { followFindings } from "../data/findings.js";
import { KINDS } from "../data/event_kinds.js";
import { addressQuery } from "../dom/address_query.js";
import { foreign, h, replace } from "../dom/element.js";
import { clockTime, count } from "../format.js";
import { text, whatWords } from "../text/alerts.js";
import { useStyles } from "../dom/styles.js";
import { ago, button, card, choice, linkButton, onCommandLine, pageHead, status, tag } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { say } from "../ui/toasts.js";
import { countedFindings, findingList } from "../ui/findings.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { openGroup } from "./alerts/group.js";
import { sound } from "./alerts/sound.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../data/alerts.js").Group} Group */

/** @param {Place} place */
export async function show({ host, query, app, signal, go }) {
  await useStyles("alerts");
  const { alerts } = app;
  sound.follow(alerts);
  const chosen = query.get("kind") ?? "all";
  const findings = h("div");
  const counted = h("span", { class: "muted" });
  const notes = h("div", { class: "stack" });
  const listen = button(sound.isOn ? text.soundOn : text.soundOff, () => switchSound(listen), { kind: "quiet small" });
  listen.setAttribute("aria-pressed", String(sound.isOn));
  const table = new Table(inAddress(tableOptions(app, signal, chosen)));
  const kinds = /** @type {[string, string][]} */ ([["all", text.all], ["problems", text.problems], ...KINDS.map((kind) => [kind, text.kinds[kind]])]);
  replace(
    host,
    pageHead("Alerts", {
      sub: text.sub(clockTime(alerts.since)),
      actions: [listen, button(text.clear, () => { alerts.clear(); say(text.cleared); }, { kind: "small" })],
    }),
    card(text.findings, { flush: true, actions: [counted] }, findings),
    card(text.events, { flush: true }, h("div", { class: "alert-kinds" }, choice(text.filterLabel, kinds, chosen, (kind) => go(to("alerts", [], { ...Object.fromEntries(addressQuery()), kind: kind === "all" ? "" : kind })))), table.element),
    notes,
    onCommandLine(...commands(app)),
  );
  /** @type {import("../data/findings.js").Diagnosis} */
  let diagnosis = { findings: [], unseen: 0, refused: [] };
  /** @type {unknown} */
  let problem = null;
  const drawFindings = () => {
    const all = [...alerts.findings, ...diagnosis.findings];
    replace(counted, countedFindings(all));
    replace(findings, findingLines(app, { ...diagnosis, findings: all }, problem));
  };
  followFindings(app, {
    signal,
    show: (answer) => { [diagnosis, problem] = [answer, null]; drawFindings(); },
    failed: (error) => { problem = error; drawFindings(); },
  });
  const draw = () => {
    drawFindings();
    table.setRows(alerts.latest().filter((group) => isOfKind(group, chosen)));
    replace(notes, noteLines(app));
  };
  alerts.addEventListener("change", draw, { signal });
  const clock = setInterval(() => table.redraw(), 5_000); // ages grow older
  signal.addEventListener("abort", () => clearInterval(clock));
  draw();
}

/**
 * @param {import("../app.js").App} app
 * @param {AbortSignal} signal
 * @param {string} chosen
 * @returns {import("../ui/table.js").TableOptions<Group>}
 */
function tableOptions(app, signal, chosen) {
  return {
    name: "alerts",
    label: text.events,
    key: (group) => group.key,
    words: (group) => [whatWords(group.told.what), ...group.told.about, group.told.reason, group.subject].join(" "),
    sorted: ["last", "down"],
    open: (group) => openGroup(app, group, signal),
    json: (group) => ({ ...group.told, subject: group.subject, count: group.count, first: new Date(group.first).toISOString(), last: new Date(group.last).toISOString() }),
    empty: () => (chosen === "all" ? empty(text.quiet, h("p", {}, text.quietNext)) : empty(text.noneOfKind, linkButton(text.all, to("alerts")))),
    columns: [
      { name: "tone", label: text.columns.tone, cell: (group) => status(group.told.tone, text.tones[group.told.tone]), sort: (group) => ["bad", "warn", "info", "idle", "good"].indexOf(group.told.tone) },
      { name: "what", label: text.columns.what, cell: (group) => foreign(whatWords(group.told.what)), sort: (group) => whatWords(group.told.what) },
      { name: "about", label: text.columns.about, cell: about, sort: (group) => group.told.about.join(" ") },
      { name: "reason", label: text.columns.reason, cell: (group) => foreign(group.told.reason), sort: (group) => group.told.reason },
      { name: "count", label: text.columns.count, number: true, cell: (group) => count(group.count), sort: (group) => group.count },
      { name: "last", label: text.columns.last, number: true, cell: (group) => ago(group.last), sort: (group) => group.last },
      { name: "first", label: text.columns.first, number: true, hidden: true, cell: (group) => ago(group.first), sort: (group) => group.first },
      { name: "kind", label: text.columns.kind, hidden: true, cell: (group) => tag(text.kinds[group.told.kind]), sort: (group) => group.told.kind },
    ],
  };
}

/** @param {Group} group */
function about({ told }) {
  const words = foreign(told.about.join(" › "));
  return told.href ? h("a", { href: told.href }, words) : words;
}

/**
 * @param {Group} group
 * @param {string} chosen
 */
function isOfKind({ told }, chosen) {
  if (chosen === "all") return true;
  return chosen === "problems" ? told.tone === "bad" || told.tone === "warn" : told.kind === chosen;
}

/**
 * @param {import("../app.js").App} app
 * @param {import("../data/findings.js").Diagnosis} diagnosis
 * @param {unknown} problem why they could not be looked for
 */
function findingLines(app, { findings, unseen, refused }, problem) {
  const nothing = h("div", { class: "row inset" }, status("good", text.nothingFound), h("span", { class: "muted" }, app.operator ? text.noFindings : text.noFindingsAccount));
  const leads = (/** @type {{ account?: string }} */ symptom) => !symptom.account || symptom.account === app.account?.who.account;
  return [
    findings.length ? findingList(findings, { leads }) : problem === null && !refused.length && nothing,
    refused.length > 0 && h("p", { class: "muted inset wrap-anywhere" }, text.notAllowed(refused.join(", "))),
    unseen > 0 && h("p", { class: "muted small inset" }, text.unseen(count(unseen))),
    problem !== null && h("div", {}, h("p", { class: "muted inset" }, text.notLooked), failure(problem)),
  ].flat();
}

/** @param {import("../app.js").App} app */
function noteLines(app) {
  const refused = [...app.alerts.refused];
  return [
    refused.length > 0 && h("p", { class: "muted small wrap-anywhere" }, text.refused(refused.join(", "))),
    !app.operator && h("p", { class: "muted small" }, text.accountOnly, " ", h("a", { href: to("server") }, text.operatorLogin)),
    app.alerts.unread > 0 && h("p", { class: "muted small" }, text.unread(count(app.alerts.unread))),
  ];
}

/** @param {import("../app.js").App} app */
function commands(app) {
  return [app.account && "headrace events --js-advisory --js-metric", app.operator && "headrace events --server-events --account-events"].filter((line) => typeof line === "string");
}

/** @param {HTMLButtonElement} element */
function switchSound(element) {
  sound.set(!sound.isOn);
  element.textContent = sound.isOn ? text.soundOn : text.soundOff;
  element.setAttribute("aria-pressed", String(sound.isOn));
}
