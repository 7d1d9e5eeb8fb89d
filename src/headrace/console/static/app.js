/**
 * What the console is while a tab is open: its settings, up to two connections, the address that is shown.
 * Never here: elements (shell.js), what a page does (pages/).
 */

import { Link } from "./nats/link.js";
import { outage } from "./data/poll.js";
import { Alerts } from "./data/alerts.js";
import { watchRights } from "./data/rights_watch.js";
import { Watch } from "./data/watch.js";
import { keepLogin } from "./preferences.js";

/** @typedef {import("./nats/link.js").Role} Role */
/** @typedef {import("./nats/link.js").Login} Login */

/**
 * What the server says of its console (console.json).
 * @typedef {{ version: string, server_name?: string, path: string, socket: string | null, read_only: boolean, hide: string[], system: boolean,
 *   pipelines: string | null, idle_lock: number }} Settings
 */

/** @type {Settings} */
export const DEFAULTS = { version: "", path: "/console", socket: null, read_only: false, hide: [], system: false, pipelines: null, idle_lock: 1_800 };

/** The address of a page, in the fragment: `#/streams/ORDERS?from=1200`. */
export class Address {
  /**
   * @param {string} page
   * @param {string[]} path
   * @param {URLSearchParams} query
   */
  constructor(page, path, query) {
    this.page = page;
    this.path = path;
    this.query = query;
  }

  /** @param {string} fragment */
  static read(fragment) {
    const [place, query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
    const [page = "", ...path] = place.split("/").map(unescaped);
    return new Address(page || "overview", path.filter(Boolean), new URLSearchParams(query));
  }
}

/** @param {string} part */
function unescaped(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * The link to a page; its parts may have any characters.
 *
 * @param {string} page
 * @param {string[]} [path]
 * @param {Record<string, string | number | undefined | null>} [query]
 */
export function to(page, path = [], query = {}) {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString();
  return `#/${[page, ...path].map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Events: "links" when a connection came, changed its state or went, "rights" when a user may do more or less than before. */
export class App extends EventTarget {
  /** @param {Settings} settings */
  constructor(settings) {
    super();
    this.settings = settings;
    this.tab = randomId();
    /** @type {Link | null} */
    this.account = null;
    /** @type {Link | null} */
    this.operator = null;
    this.addEventListener("links", () => outage.set([this.account, this.operator].some((link) => link && link.state !== "connected")));
    this.watch = new Watch(this);
    this.alerts = new Alerts(this);
  }

  /** The address of the server's WebSocket port. */
  get socket() {
    return this.settings.socket ?? `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}`;
  }

  get isReadOnly() {
    return this.settings.read_only;
  }

  /** The connection that is there, an account's rather than an operator's. */
  get any() {
    return this.account ?? this.operator;
  }

  /**
   * Sign in; a user of the system account becomes the operator, whoever asked.
   *
   * @param {Login} login
   * @param {Role} role what was asked for
   * @param {{ keep?: boolean }} [options]
   * @returns {Promise<Role>} what it became
   */
  async signIn(login, role, { keep = false } = {}) {
    const link = await Link.open({ url: this.socket, login, role, tab: this.tab });
    const found = await this.#roleOf(link, role);
    link.role = found;
    await this[found]?.close();
    this[found] = link;
    keepLogin(found, keep ? JSON.stringify(login) : null);
    link.addEventListener("state", () => this.dispatchEvent(new Event("links")));
    link.addEventListener("rights", () => this.dispatchEvent(new Event("rights")));
    watchRights(link);
    this.dispatchEvent(new Event("links"));
    return found;
  }

  /** @param {Role} role */
  async signOut(role) {
    const link = this[role];
    this[role] = null;
    keepLogin(role, null);
    await link?.close();
    this.dispatchEvent(new Event("links"));
  }

  /**
   * The operator's requests are answered in the system account only: who hears their answer is in it.
   *
   * @param {Link} link
   * @param {Role} asked
   * @returns {Promise<Role>}
   */
  async #roleOf(link, asked) {
    try {
      await link.askJson("$SYS.REQ.SERVER.PING.IDZ", undefined, { timeout: 1_500 });
      return "operator";
    } catch {
      return asked === "operator" ? "operator" : "account"; // its pages then say what is missing
    }
  }
}

function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
