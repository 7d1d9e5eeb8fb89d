/**
 * What findings are derived from: what servers and an account said, gathered by as few questions as that takes.
 * Never here: what is right or wrong of it (findings.js).
 */

import { clientsOfAccount } from "../nats/connections.js";
import { consumers } from "../nats/consumers.js";
import { NoRight, NotConnected } from "../nats/errors.js";
import { accountInfo, streams } from "../nats/jetstream.js";
import { good, headraceVersion, health, jetstreamOfAll, routes, varz } from "../nats/servers.js";
import { everyServer } from "../nats/system.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/connections.js").Connection} Connection */
/** @typedef {import("../nats/servers.js").StreamDetail} StreamDetail */
/** @template T @typedef {import("../nats/system.js").FromServer<T>} FromServer */

/**
 * One server. An account's login sees no server: its evidence has none.
 *
 * @typedef {object} ServerEvidence
 * @property {string} id
 * @property {string} name
 * @property {boolean} isHeadrace
 * @property {import("../nats/servers.js").Varz} varz
 * @property {import("../nats/servers.js").Health | null} health
 * @property {import("../nats/servers.js").Routez | null} routes
 * @property {Connection[]} clients those with most waiting
 * @property {Connection[]} closed those closed last
 * @property {import("../nats/servers.js").Jsz | null} jetstream
 * @property {number} clockAhead of this browser's, ms
 * @property {number} clockError by how much `clockAhead` may be wrong, ms
 */

/**
 * @typedef {object} Evidence
 * @property {number} now ms
 * @property {ServerEvidence[]} servers
 * @property {{ account: string, server: string, stream: StreamDetail }[]} streams each once
 * @property {{ server: string, connection: Connection }[]} clients those with most waiting, of all servers or of the account
 * @property {string} account the account of an account's login whose streams these are, "" for an operator's
 * @property {string[]} refused subjects that the user may not ask
 * @property {number} unseen streams that were not looked at, because there are so many
 */

/** Connections of a server that are looked at. */
const CONNECTIONS = 256;
/** Streams are looked at where there are no more: one answer has them all, with their consumers. */
export const MOST_STREAMS = 1_000;
/** An account's own user asks for the consumers of so many streams, a question each. */
const MOST_ASKED = 24;

/**
 * Evidence of all servers where there is an operator's login, else of the account.
 * @param {App} app
 * @returns {Promise<Evidence>}
 */
export async function gather(app) {
  if (app.operator) return ofServers(app.operator, app.watch.servers.size);
  if (app.account) return ofAccount(app.account);
  return { now: Date.now(), servers: [], streams: [], clients: [], account: "", refused: [], unseen: 0 };
}

/**
 * @param {Link} link
 * @param {number} expected servers
 * @returns {Promise<Evidence>}
 */
async function ofServers(link, expected) {
  const asked = Date.now();
  const figures = good(await varz(link, expected));
  const answered = Date.now();
  const all = figures.length;
  const [healths, paths, waiting, closed, counts] = await Promise.all([
    health(link, all), routes(link, all),
    clients(link, { sort: "pending" }, all), clients(link, { state: 1, sort: "stop" }, all),
    jetstreamOfAll(link, {}, all),
  ]);
  const most = Math.max(0, ...counts.map((answer) => answer.data?.streams ?? 0));
  const details = most > 0 && most <= MOST_STREAMS ? await jetstreamOfAll(link, { accounts: true, streams: true, consumer: true, config: true }, all) : counts;
  /** @template T @param {FromServer<T>[]} answers @param {string} id @returns {T | null} */
  const of = (answers, id) => answers.find((answer) => answer.server.id === id && !answer.error)?.data ?? null;
  const servers = figures.map(({ server, data }) => {
    const told = Date.parse(String(data.now ?? "").replace(/(\.\d{3})\d+/, "$1"));
    return {
      id: server.id, name: server.name, isHeadrace: Boolean(headraceVersion(data)), varz: data,
      health: of(healths, server.id), routes: of(paths, server.id), jetstream: of(details, server.id),
      clients: of(waiting, server.id)?.connections ?? [], closed: of(closed, server.id)?.connections ?? [],
      clockAhead: Number.isNaN(told) ? 0 : told - (asked + answered) / 2, clockError: (answered - asked) / 2,
    };
  });
  return {
    now: Date.now(), servers, streams: streamsOf(servers), account: "", refused: [], unseen: details === counts ? most : 0,
    clients: servers.flatMap((server) => server.clients.map((connection) => ({ server: server.name, connection }))),
  };
}

/**
 * @param {Link} link
 * @param {object} options
 * @param {number} expected
 * @returns {Promise<FromServer<import("../nats/connections.js").Connz>[]>}
 */
function clients(link, options, expected) {
  return everyServer(link, "CONNZ", { limit: CONNECTIONS, auth: true, ...options }, { expected, quiet: 400 });
}

/**
 * Each stream once: by its leader where it has replicas, else by each server that has it.
 * @param {ServerEvidence[]} servers
 */
function streamsOf(servers) {
  /** @type {Map<string, { account: string, server: string, stream: StreamDetail }>} */
  const found = new Map();
  for (const server of servers) {
    for (const account of server.jetstream?.account_details ?? []) {
      for (const stream of account.stream_detail ?? []) {
        const { leader, replicas } = stream.cluster ?? {};
        const isFollower = replicas?.length && leader && leader !== server.name;
        const key = [account.name, stream.name, replicas?.length ? "" : server.id].join(" ");
        if (!isFollower && !found.has(key)) found.set(key, { account: account.name, server: server.name, stream });
      }
    }
  }
  return [...found.values()];
}

/**
 * What a user of any account may see: the streams and consumers of its account, and its connections.
 * @param {Link} link
 * @returns {Promise<Evidence>}
 */
async function ofAccount(link) {
  const account = link.who.account;
  const refused = /** @type {string[]} */ ([]);
  /** @template T @param {Promise<T>} answer */
  const orNothing = (answer) => orNull(answer, refused);
  const own = await orNothing(clientsOfAccount(link, { sort: "pending" }, { compare: (a, b) => b.pending_bytes - a.pending_bytes }));
  const info = await orNothing(accountInfo(link));
  const page = info?.streams ? await orNothing(streams(link)) : null;
  const found = /** @type {StreamDetail[]} */ ((page?.streams ?? []).map((stream) => ({ ...stream, name: stream.config.name })));
  for (const stream of found.filter((one) => one.state.consumer_count > 0).slice(0, MOST_ASKED)) {
    stream.consumer_detail = (await orNothing(consumers(link, stream.name)))?.consumers ?? [];
  }
  return {
    now: Date.now(), servers: [], account, refused, unseen: (page?.total ?? 0) - found.length,
    streams: found.map((stream) => ({ account, server: "", stream })),
    clients: (own?.clients ?? []).map((connection) => ({ server: connection.server.name, connection })),
  };
}

/**
 * What a user may not ask for is no evidence, but is told; what its account does not have is none.
 * @template T
 * @param {Promise<T>} answer
 * @param {string[]} refused
 * @returns {Promise<T | null>}
 */
async function orNull(answer, refused) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotConnected) throw error;
    if (error instanceof NoRight) refused.push(error.subject);
    return null;
  }
}
