/**
 * Findings: what is wrong with servers, clients, streams and consumers, the worst first, with what to do; what
 * `headrace doctor` finds, as far as it can be seen from here. The Server page, Overview and Alerts show them.
 * Ids and meanings are those of docs/doctor.md. Never here: how a finding looks (ui/findings.js).
 */

import { meanings } from "../text/findings.js";
import { accessChecks } from "./checks/access.js";
import { meshChecks } from "./checks/mesh.js";
import { serverChecks } from "./checks/servers.js";
import { storeChecks } from "./checks/store.js";
import { streamChecks } from "./checks/streams.js";
import { gather } from "./evidence.js";
import { poll } from "./poll.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("./evidence.js").Evidence} Evidence */
/** @typedef {"danger" | "warning" | "hint"} Severity */
/** @typedef {keyof typeof meanings} FindingId */

/**
 * A place where something was found: a server, a stream; what it is there; the page that shows it. `account`: of a
 * stream or consumer, whose page only a login of that account can open.
 * @typedef {{ place: string, words: string, href?: string, account?: string }} Symptom
 */
/** @typedef {{ id: FindingId, severity: Severity, look: (evidence: Evidence) => Symptom[] }} Check */
/** @typedef {{ id: FindingId, severity: Severity, title: string, advice: string, symptoms: Symptom[] }} Finding */
/** @typedef {{ findings: Finding[], unseen: number, refused: string[] }} Diagnosis `unseen`: streams that were not looked at; `refused`: subjects
 * that the user may not ask */

/** @type {Check[]} */
export const CHECKS = [...accessChecks, ...storeChecks, ...streamChecks, ...serverChecks, ...meshChecks];
const ORDER = /** @type {Severity[]} */ (["danger", "warning", "hint"]);

/** Findings are derived anew so long after the last ones, ms. */
const EVERY_MS = 30_000;
/** Those of another page that are not older than this are shown at once, ms. */
const FRESH_MS = 25_000;

/**
 * What checks find in some evidence, the worst first.
 * @param {Evidence} evidence
 * @returns {Diagnosis}
 */
export function diagnose(evidence) {
  const findings = CHECKS.map(({ id, severity, look }) => ({ id, severity, ...meanings[id], symptoms: look(evidence) })).filter((finding) => finding.symptoms.length);
  findings.sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  return { findings, unseen: evidence.unseen, refused: evidence.refused };
}

/** @type {WeakMap<App, { link: unknown, time: number, diagnosis: Promise<Diagnosis> }>} */
const last = new WeakMap();

/**
 * The findings of now, or of some seconds ago: several pages that ask are one question.
 * @param {App} app
 * @returns {Promise<Diagnosis>}
 */
export function findings(app) {
  const known = last.get(app);
  if (known && known.link === (app.operator ?? app.account) && Date.now() - known.time < FRESH_MS) return known.diagnosis;
  const diagnosis = gather(app).then(diagnose);
  last.set(app, { link: app.operator ?? app.account, time: Date.now(), diagnosis });
  diagnosis.catch(() => last.delete(app));
  return diagnosis;
}

/**
 * Show the findings, and again every half minute, until the signal is aborted.
 * @param {App} app
 * @param {{ show: (diagnosis: Diagnosis) => void, failed?: (error: unknown) => void, signal: AbortSignal }} options
 */
export function followFindings(app, { show, failed, signal }) {
  poll({ every: EVERY_MS, ask: () => findings(app), show, failed, signal });
}
