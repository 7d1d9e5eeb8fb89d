/**
 * One connection to the servers, of one login: requests with answers of one or many, subscriptions, what changes in
 * its state. Pages use nothing of nats-core but through here. Events: "state", "rights", "denied" with a NoRight.
 * Never here: what is asked (jetstream.js, system.js), how it looks.
 */

import { createInbox, wsconnect } from "../vendor/nats-core.js";
import { checked, readJson, translated } from "./answers.js";
import { authenticators } from "./credentials.js";
import { NoRight, NotConnected } from "./errors.js";
import { gather } from "./many_answers.js";
import { publishOrRefuse } from "./refused_publish.js";
import { requestHeaders } from "./request_headers.js";
import { USER_INFO } from "./rights.js";

/** @typedef {import("../vendor/nats-core.js").NatsConnection} NatsConnection */
/** @typedef {import("../vendor/nats-core.js").Msg} Msg */
/** @typedef {import("../vendor/nats-core.js").MsgHdrs} MsgHdrs */
/** @typedef {import("./credentials.js").Login} Login */
/** @typedef {"account" | "operator"} Role */
/** @typedef {"connected" | "reconnecting" | "closed"} LinkState */
/** @typedef {{ user: string, account: string, expires?: number, permissions?: Permissions }} UserInfo */
/** @typedef {{ publish?: Rights, subscribe?: Rights, responses?: object }} Permissions */
/** @typedef {{ allow?: string[], deny?: string[] }} Rights */
/** @typedef {import("./request_headers.js").HeaderValues} HeaderValues */
/** @typedef {{ timeout?: number, headers?: HeaderValues }} AskOptions timeout in milliseconds */

const TIMEOUT = 5_000;

export class Link extends EventTarget {
  /**
   * @param {NatsConnection} connection
   * @param {Role} role
   * @param {Login} login
   * @param {string} tab a random id of this tab
   */
  constructor(connection, role, login, tab) {
    super();
    this.role = role;
    this.login = login;
    this.tab = tab;
    /** @type {LinkState} */
    this.state = "connected";
    /** The time until which the next attempt to reconnect waits, in ms; 0 while connected. */
    this.retryAt = 0;
    this.reason = "";
    /** @type {UserInfo} */
    this.who = { user: "", account: "" };
    this.#connection = connection;
    this.#follow();
  }

  /** @type {NatsConnection} */
  #connection;

  /**
   * Connect and sign in.
   *
   * Raises: nats-core's AuthorizationError, ConnectionError and the like, as they are.
   *
   * @param {{ url: string, login: Login, role: Role, tab: string }} options
   */
  static async open({ url, login, role, tab }) {
    const connection = await wsconnect({
      servers: [url],
      authenticator: authenticators(login),
      name: `headrace console (${role})`,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_MS,
      reconnectJitter: 0,
      ignoreClusterUpdates: true,
      ignoreAuthErrorAbort: false,
      timeout: 10_000,
      pingInterval: 20_000,
    });
    const link = new Link(connection, role, login, tab);
    await link.learnRights();
    return link;
  }

  get server() {
    return /** @type {{ server_id: string, server_name: string, version: string, cluster?: string, max_payload: number, headers: boolean, jetstream?: boolean, domain?: string, git_commit?: string }} */ (
      /** @type {unknown} */ (this.#connection.info ?? { max_payload: 1_048_576 })
    );
  }

  get stats() {
    return this.#connection.stats();
  }

  /** The version of Headrace, or "" where the server is another one. */
  get headrace() {
    return /^headrace-(.+)$/.exec(this.server.git_commit ?? "")?.[1] ?? "";
  }

  /** Who a request says it comes from. */
  get sender() {
    return `${this.who.user || "-"}/${this.tab}`;
  }

  /**
   * Ask for one answer, with its headers.
   *
   * Raises: NoRight, NobodyThere, NoAnswer, NotConnected.
   *
   * @param {string} subject
   * @param {Uint8Array | string} [body]
   * @param {AskOptions} [options]
   * @returns {Promise<Msg>}
   */
  async ask(subject, body = "", { timeout = TIMEOUT, headers = {} } = {}) {
    this.#check();
    try {
      return await this.#connection.request(subject, body, { timeout, headers: requestHeaders(subject, this.sender, headers) });
    } catch (error) {
      throw translated(error, subject, timeout);
    }
  }

  /**
   * Ask for one answer in JSON. An answer with an `error` is raised as Refused.
   *
   * @template T
   * @param {string} subject
   * @param {unknown} [body]
   * @param {AskOptions} [options]
   * @returns {Promise<T>}
   */
  async askJson(subject, body, options) {
    const answer = await this.ask(subject, body === undefined ? "" : JSON.stringify(body), options);
    return /** @type {T} */ (checked(readJson(answer)));
  }

  /**
   * Ask all servers; gives what came until none came for `quiet` ms, or until `expected` have answered.
   *
   * @template T
   * @param {string} subject
   * @param {unknown} [body]
   * @param {{ quiet?: number, timeout?: number, expected?: number }} [options]
   * @returns {Promise<T[]>}
   */
  async askAll(subject, body, { quiet = 300, timeout = TIMEOUT, expected = 0 } = {}) {
    const found = /** @type {T[]} */ ([]);
    await this.eachAnswer(subject, body === undefined ? "" : JSON.stringify(body), {
      quiet, timeout, expected,
      take: (message) => found.push(/** @type {T} */ (readJson(message))),
    });
    return found;
  }

  /**
   * Give each answer of one request to `take`, until it says false, `expected` came, or none came for `quiet` ms.
   *
   * @param {string} subject
   * @param {Uint8Array | string} body
   * @param {{ take: (message: Msg) => unknown, quiet?: number, timeout?: number, expected?: number, headers?: HeaderValues, signal?: AbortSignal }} options
   * @returns {Promise<void>}
   */
  async eachAnswer(subject, body, { take, quiet = 300, timeout = TIMEOUT, expected = 0, headers = {}, signal }) {
    this.#check();
    await gather(this.#connection, this, { subject, body, take, quiet, timeout, expected, signal, headers: requestHeaders(subject, this.sender, headers) });
  }

  /**
   * Subscribe until the function that is given back is called, or the signal is aborted.
   *
   * @param {string} subject
   * @param {(message: Msg) => void} take
   * @param {{ queue?: string, signal?: AbortSignal, failed?: (error: unknown) => void }} [options]
   * @returns {() => void}
   */
  listen(subject, take, { queue, signal, failed } = {}) {
    this.#check();
    if (signal?.aborted) return () => {}; // the page was left while it waited for something else
    const subscription = this.#connection.subscribe(subject, {
      queue,
      callback: (error, message) => {
        if (error) failed?.(translated(error, subject, 0));
        else take(message);
      },
    });
    const stop = () => {
      subscription.unsubscribe();
      signal?.removeEventListener("abort", stop);
    };
    signal?.addEventListener("abort", stop);
    return stop;
  }

  /**
   * Publish; done when the server has it, so that a refusal is known.
   *
   * @param {string} subject
   * @param {Uint8Array | string} body
   * @param {{ reply?: string, headers?: MsgHdrs }} [options]
   */
  async publish(subject, body, options = {}) {
    this.#check();
    await publishOrRefuse(this.#connection, this, subject, body, options, TIMEOUT);
  }

  /** The time to the server and back, in milliseconds. */
  async roundTrip() {
    this.#check();
    return this.#connection.rtt();
  }

  newInbox() {
    return createInbox();
  }

  async close() {
    this.#become("closed", "");
    await this.#connection.close();
  }

  #check() {
    if (this.state === "closed" || this.#connection.isClosed()) throw new NotConnected(this.reason || "not connected");
  }

  /**
   * Ask the server who this is and what it may do; "rights" tells of a change. A server without that request, or a user
   * without the right, leaves it open, or as it was known before: false. Raises: NotConnected.
   */
  async learnRights() {
    try {
      const answer = /** @type {{ data?: UserInfo }} */ (await this.askJson(USER_INFO, undefined, { timeout: 2_000 }));
      const before = rightsIn(this.who);
      this.who = answer.data ?? this.who;
      if (rightsIn(this.who) !== before) this.dispatchEvent(new Event("rights"));
      return true;
    } catch (error) {
      if (error instanceof NotConnected) throw error;
      if (this.login.kind === "password" && !this.who.user) this.who = { user: this.login.user, account: "" };
      return false;
    }
  }

  /** True after a reconnection that lasts; one that was ended at once is told by the state that follows. */
  async #isThere() {
    try {
      await this.learnRights();
      return true;
    } catch (error) {
      if (error instanceof NotConnected) return false;
      throw error;
    }
  }

  /** Follow the states of the connection until it is closed. */
  async #follow() {
    for await (const status of this.#connection.status()) {
      if (status.type === "disconnect" || status.type === "staleConnection") this.#become("reconnecting", "");
      else if (status.type === "reconnecting") this.#become("reconnecting", this.reason);
      else if (status.type === "reconnect") {
        if (await this.#isThere()) this.#become("connected", "");
      } else if (status.type === "error") this.#failed(status.error);
    }
    const reason = await this.#connection.closed();
    this.#become("closed", reason instanceof Error ? reason.message : this.reason);
  }

  /** @param {unknown} error */
  #failed(error) {
    const known = translated(error, "", 0);
    if (known instanceof NoRight) this.dispatchEvent(new CustomEvent("denied", { detail: known }));
    else this.reason = known.message;
  }

  /**
   * @param {LinkState} state
   * @param {string} reason
   */
  #become(state, reason) {
    if (this.state === "closed") return;
    this.state = state;
    this.reason = reason;
    this.retryAt = state === "reconnecting" ? Date.now() + RECONNECT_MS : 0;
    this.dispatchEvent(new Event("state"));
  }
}

/** The pause before each attempt to reconnect, in ms. */
const RECONNECT_MS = 2_000;

/** What of a user can change with a reload; the time until a login ends always does. @param {UserInfo} who */
function rightsIn({ user, account, permissions }) {
  return JSON.stringify([user, account, permissions]);
}
