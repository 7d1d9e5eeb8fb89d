/**
 * The figures of the servers and of an account over the time that a tab is open, asked for every two seconds: what
 * the overview draws, and what pages need of "all servers". One for a console, whatever page is shown.
 */

import { NoRight } from "../nats/errors.js";
import { accountInfo } from "../nats/jetstream.js";
import { mayPublish } from "../nats/rights.js";
import { accountStatistics, serverStatistics } from "../nats/system.js";
import { OFTEN, poll } from "./poll.js";
import { Rates, Series } from "./series.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/system.js").ServerIdentity} ServerIdentity */
/** @typedef {import("../nats/system.js").ServerStats} ServerStats */
/** @typedef {{ server: ServerIdentity, stats: ServerStats, seen: number }} KnownServer */

/** What is drawn over time, of all servers together and of each. */
export const FIGURES = ["msgs_in", "msgs_out", "bytes_in", "bytes_out", "connections", "storage"];
/** The pause before the second answer, which gives the first rates, in ms. */
const FIRST_MS = 700;
/** A server that did not answer for so long is told to be silent, in ms. */
export const SILENT_MS = 6_000;
/** A server that is gone so long is forgotten, in ms. */
const FORGOTTEN_MS = 10 * 60_000;

/** Events: "change" after each answer, "failed" with the error as detail. */
export class Watch extends EventTarget {
  /** @param {App} app */
  constructor(app) {
    super();
    app.addEventListener("links", () => this.#follow(app));
    this.#follow(app);
  }

  /** All servers that answered lately, by id. @type {Map<string, KnownServer>} */
  servers = new Map();
  all = new Series(FIGURES);
  /** @type {Map<string, Series>} */
  ofServer = new Map();
  account = new Series(FIGURES);
  /** @type {import("../nats/jetstream.js").AccountInfo | null} */
  jetstream = null;
  /** Why there are no figures of JetStream, if a server said so. @type {unknown} */
  jetstreamProblem = null;
  /** Why the last question had no answer; null where it had one. @type {{ account: unknown, operator: unknown }} */
  problems = { account: null, operator: null };
  /** How many slow consumers there were since it is looked. */
  slow = 0;

  #rates = new Rates();
  #accountRates = new Rates();
  /** @type {Map<string, number>} */
  #slowBefore = new Map();
  /** @type {Link | null} */
  #operator = null;
  /** @type {Link | null} */
  #link = null;
  #operatorEnd = new AbortController();
  #linkEnd = new AbortController();

  /** The servers by name, those that are silent too. */
  get byName() {
    return [...this.servers.values()].sort((a, b) => a.server.name.localeCompare(b.server.name));
  }

  /** @param {App} app */
  #follow(app) {
    if (app.operator !== this.#operator) {
      this.#operatorEnd.abort();
      this.#operatorEnd = new AbortController();
      this.#operator = app.operator;
      this.#forgetServers();
      this.problems.operator = null;
      if (this.#operator) this.#watchServers(this.#operator, this.#operatorEnd.signal);
    }
    if (app.account !== this.#link) {
      this.#linkEnd.abort();
      this.#linkEnd = new AbortController();
      this.#link = app.account;
      this.account = new Series(FIGURES);
      this.#accountRates = new Rates();
      this.jetstream = null;
      this.jetstreamProblem = null;
      this.problems.account = null;
      if (this.#link) this.#watchAccount(this.#link, this.#linkEnd.signal);
    }
  }

  /** Whoever signs in next may be the operator of other servers. */
  #forgetServers() {
    this.servers.clear();
    this.all = new Series(FIGURES);
    this.ofServer.clear();
    this.slow = 0;
    this.#slowBefore.clear();
    this.#rates = new Rates();
  }

  /**
   * @param {Link} link
   * @param {AbortSignal} signal
   */
  #watchServers(link, signal) {
    poll({
      every: () => (this.all.times.length ? OFTEN : FIRST_MS),
      signal,
      ask: () => serverStatistics(link, this.servers.size),
      show: (answers) => this.#takeServers(answers),
      failed: (error) => this.#fail("operator", error),
    });
  }

  /**
   * @param {"account" | "operator"} role
   * @param {unknown} error
   */
  #fail(role, error) {
    this.problems[role] = error;
    this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  /** @param {{ server: ServerIdentity, statsz: ServerStats }[]} answers */
  #takeServers(answers) {
    this.problems.operator = null;
    const now = Date.now();
    const sums = /** @type {Record<string, number>} */ ({});
    let isWhole = answers.length > 0;
    for (const { server, statsz } of answers) {
      this.servers.set(server.id, { server, stats: statsz, seen: now });
      this.#takeSlow(server.id, statsz.slow_consumers);
      const figures = this.#figuresOf(server.id, now / 1000, statsz);
      if (!figures) isWhole = false;
      else {
        const series = this.ofServer.get(server.id) ?? new Series(FIGURES);
        this.ofServer.set(server.id, series);
        series.add(now / 1000, figures);
        for (const name of FIGURES) sums[name] = (sums[name] ?? 0) + figures[name];
      }
    }
    for (const [id, known] of this.servers) if (now - known.seen > FORGOTTEN_MS) this.#forget(id);
    this.#rates.keep(new Set(this.servers.keys()));
    if (isWhole) this.all.add(now / 1000, sums);
    this.dispatchEvent(new Event("change"));
  }

  /** A server that is started again has another id: what was known of the old one would stay for ever. @param {string} id */
  #forget(id) {
    this.servers.delete(id);
    this.ofServer.delete(id);
    this.#slowBefore.delete(id);
  }

  /**
   * @param {string} id
   * @param {number} time
   * @param {ServerStats} stats
   * @returns {Record<string, number> | null}
   */
  #figuresOf(id, time, stats) {
    const rates = this.#rates.of(id, time, {
      msgs_in: stats.received.msgs, msgs_out: stats.sent.msgs, bytes_in: stats.received.bytes, bytes_out: stats.sent.bytes,
    });
    return rates && { ...rates, connections: stats.connections, storage: stats.jetstream?.stats?.storage ?? 0 };
  }

  /**
   * @param {string} id
   * @param {number} count
   */
  #takeSlow(id, count) {
    const before = this.#slowBefore.get(id);
    if (before !== undefined && count > before) this.slow += count - before;
    this.#slowBefore.set(id, count);
  }

  /**
   * @param {Link} link
   * @param {AbortSignal} signal
   */
  #watchAccount(link, signal) {
    poll({
      every: () => (this.account.times.length ? OFTEN : FIRST_MS),
      signal,
      ask: async () => /** @type {const} */ ([await accountStatistics(link), await jetstreamOf(link)]),
      show: ([statistics, { jetstream, problem }]) => {
        this.jetstream = jetstream;
        this.jetstreamProblem = problem;
        this.problems.account = null;
        const now = Date.now() / 1000;
        const sum = (/** @type {(one: import("../nats/system.js").AccountStats) => number} */ value) => statistics.reduce((total, one) => total + value(one), 0);
        const rates = this.#accountRates.of("account", now, {
          msgs_in: sum((one) => one.received.msgs), msgs_out: sum((one) => one.sent.msgs), bytes_in: sum((one) => one.received.bytes), bytes_out: sum((one) => one.sent.bytes),
        });
        if (rates) this.account.add(now, { ...rates, connections: sum((one) => one.conns), storage: jetstream?.storage ?? 0 });
        this.dispatchEvent(new Event("change"));
      },
      failed: (error) => this.#fail("account", error),
    });
  }
}

/**
 * An account without JetStream, or a user without the right to ask, has no figures of it. A right that is known to be
 * missing is not tried.
 *
 * @param {Link} link
 * @returns {Promise<{ jetstream: import("../nats/jetstream.js").AccountInfo | null, problem: unknown }>}
 */
async function jetstreamOf(link) {
  try {
    if (!mayPublish(link, JETSTREAM)) throw new NoRight(JETSTREAM, "publish");
    return { jetstream: await accountInfo(link), problem: null };
  } catch (problem) {
    return { jetstream: null, problem };
  }
}

const JETSTREAM = "$JS.API.INFO";
