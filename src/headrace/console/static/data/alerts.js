/**
 * Events of servers, JetStream and clients while the tab is open, grouped, and what is not right in the account
 * by its figures over time. One for a console, whatever page is shown; as much is kept as a person can look at.
 * Never here: words (text/alerts.js), what an event is (event_kinds.js).
 */

import { accountFindings } from "./account_findings.js";
import { groupOf, told } from "./event_kinds.js";
import { GrowingLag } from "./growing_lag.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/link.js").Msg} Msg */
/** @typedef {import("./event_kinds.js").Told} Told */
/** @typedef {{ time: number, subject: string, document: unknown, told: Told }} Alert */
/** @typedef {{ key: string, told: Told, count: number, first: number, last: number, subject: string }} Group */
/** @typedef {import("./findings.js").Finding} Finding */

/** So many events are kept, the newest. */
export const MOST_EVENTS = 5_000;
/** So many groups are kept, those with the newest events. */
export const MOST_GROUPS = 2_000;
/** Of more events in a second the rest is counted, and not read. */
export const MOST_A_SECOND = 500;
/** A larger event is counted, and not kept whole: nobody reads it here. */
const LARGEST_EVENT = 65_536;
/** Who follows is told this seldom, in ms. */
const TOLD_MS = 500;

/**
 * Where events come. Audits of requests (`$JS.EVENT.ADVISORY.API`) are left out: there is one for each request of
 * anybody, and servers compose it only where somebody listens.
 */
const SUBJECTS = {
  both: ["$JS.EVENT.ADVISORY.STREAM.>", "$JS.EVENT.ADVISORY.CONSUMER.>", "$JS.EVENT.ADVISORY.API.LIMIT_REACHED", "$JS.EVENT.ADVISORY.DOMAIN.>", "$JS.EVENT.ADVISORY.SERVER.>"],
  account: ["$JS.EVENT.METRIC.>", "$SYS.ACCOUNT.CLIENT.AUTH.ERR"],
  operator: [
    "$SYS.ACCOUNT.*.DISCONNECT", "$SYS.ACCOUNT.*.LEAFNODE.CONNECT", "$SYS.SERVER.*.CLIENT.AUTH.ERR", "$SYS.SERVER.*.LAMEDUCK", "$SYS.SERVER.*.SHUTDOWN",
    "$SYS.SERVER.*.OCSP.>",
  ],
};

/** Events: "change" when something came, "alert" with the new group as detail when it is its first. */
export class Alerts extends EventTarget {
  /** @param {App} app */
  constructor(app) {
    super();
    this.#lag = new GrowingLag();
    app.addEventListener("links", () => this.#follow(app));
    app.watch.addEventListener("change", () => this.#find(app));
    this.#follow(app);
  }

  /** The newest events, oldest first. @type {Alert[]} */
  events = [];
  /** @type {Map<string, Group>} */
  groups = new Map();
  /** What is not right in the account, by its figures over time. @type {Finding[]} */
  findings = [];
  /** Subjects that a user may not listen to. @type {Set<string>} */
  refused = new Set();
  /** Events that were counted without being read. */
  unread = 0;
  /** When it began to listen. */
  since = Date.now();

  #lag;
  /** @type {{ account: Link | null, operator: Link | null }} */
  #links = { account: null, operator: null };
  /** @type {{ account: AbortController, operator: AbortController }} */
  #ends = { account: new AbortController(), operator: new AbortController() };
  #second = 0;
  #inSecond = 0;
  #timer = 0;
  /** @type {Map<string, { role: string, time: number }>} */
  #lately = new Map();

  /**
   * The groups, those with the newest event first.
   * @param {number} [most]
   */
  latest(most = MOST_GROUPS) {
    return [...this.groups.values()].sort((a, b) => b.last - a.last).slice(0, most);
  }

  /**
   * The events of a group that are kept, newest first.
   * @param {string} key
   */
  of(key) {
    return this.events.filter((event) => groupOf(event.told) === key).reverse();
  }

  clear() {
    this.events = [];
    this.groups.clear();
    this.unread = 0;
    this.#tell();
  }

  /** @param {App} app */
  #follow(app) {
    for (const role of /** @type {const} */ (["account", "operator"])) {
      const link = app[role];
      if (link === this.#links[role]) continue;
      this.#ends[role].abort();
      if (this.#links[role]) this.clear(); // whoever signs in next is somebody else
      for (const subject of SUBJECTS[role]) this.refused.delete(subject);
      for (const subject of SUBJECTS.both) this.refused.delete(subject);
      const end = (this.#ends[role] = new AbortController());
      this.#links[role] = link;
      if (role === "account") this.#forgetLag();
      if (!link) continue;
      for (const subject of [...SUBJECTS.both, ...SUBJECTS[role]]) this.#listen(link, subject, end.signal);
      if (role === "account") this.#lag.follow(link, end.signal, () => this.#find(app));
    }
  }

  /** What grew in one account says nothing of another. */
  #forgetLag() {
    this.#lag.clear();
    this.findings = [];
  }

  /**
   * @param {Link} link
   * @param {string} subject
   * @param {AbortSignal} signal
   */
  #listen(link, subject, signal) {
    link.listen(subject, (message) => this.#take(message, link.role), {
      signal,
      failed: () => {
        this.refused.add(subject);
        this.#tell();
      },
    });
  }

  /**
   * @param {Msg} message
   * @param {string} role
   */
  #take(message, role) {
    const now = Date.now();
    if (Math.floor(now / 1_000) !== this.#second) [this.#second, this.#inSecond] = [Math.floor(now / 1_000), 0];
    this.#inSecond += 1;
    if (this.#inSecond > MOST_A_SECOND || message.data.length > LARGEST_EVENT) {
      this.unread += 1;
      return this.#tell();
    }
    const document = read(message.data);
    const event = told(message.subject, document);
    if (!event || this.#isKnown(groupOf(event), document, role, now)) return undefined;
    return this.#add({ time: now, subject: message.subject, document, told: event });
  }

  /**
   * True for what the other connection has told: JetStream tells some events in the account and in the system account.
   *
   * @param {string} key
   * @param {Record<string, any>} document
   * @param {string} role
   * @param {number} now
   */
  #isKnown(key, document, role, now) {
    const id = `${key} ${document.consumer_seq ?? ""} ${document.leader ?? ""}`;
    const before = this.#lately.get(id);
    if (before && before.role !== role && now - before.time < 2_000) return true;
    this.#lately.set(id, { role, time: now });
    if (this.#lately.size > 1_000) this.#lately.delete(/** @type {string} */ (this.#lately.keys().next().value));
    return false;
  }

  /** @param {Alert} event */
  #add(event) {
    this.events.push(event);
    if (this.events.length > MOST_EVENTS) this.events.splice(0, this.events.length - MOST_EVENTS);
    const key = groupOf(event.told);
    const group = this.groups.get(key);
    if (group) {
      group.count += 1;
      group.last = event.time;
      this.groups.delete(key); // the map is in the order of the last events
      this.groups.set(key, group);
    } else {
      const made = { key, told: event.told, count: 1, first: event.time, last: event.time, subject: event.subject };
      this.groups.set(key, made);
      if (this.groups.size > MOST_GROUPS) this.groups.delete(/** @type {string} */ (this.groups.keys().next().value));
      this.dispatchEvent(new CustomEvent("alert", { detail: made }));
    }
    this.#tell();
  }

  /** @param {App} app */
  #find(app) {
    const found = accountFindings(this.#lag.growing, app.watch.jetstream);
    if (!found.length && !this.findings.length) return;
    this.findings = found;
    this.#tell();
  }

  #tell() {
    if (this.#timer) return;
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      this.dispatchEvent(new Event("change"));
    }, TOLD_MS);
  }
}

/**
 * The JSON of an event; what is none is kept as its text.
 * @param {Uint8Array} data
 * @returns {Record<string, any>}
 */
function read(data) {
  const text = new TextDecoder().decode(data);
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? value : { text };
  } catch {
    return { text };
  }
}
