/**
 * Streams and consumers with what happens in them, for lists of "the most": by lag, by growth. Of an account's login
 * they come from the JetStream API, of an operator's from the servers' own documents.
 */

import { consumers } from "../nats/consumers.js";
import { streams } from "../nats/jetstream.js";
import { everyServer } from "../nats/system.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {{ account: string, stream: string, messages: number, bytes: number, lastSequence: number }} ActiveStream */
/** @typedef {{ account: string, stream: string, name: string, unprocessed: number, unacked: number }} ActiveConsumer */
/** @typedef {{ streams: ActiveStream[], consumers: ActiveConsumer[], total: number, isWhole: boolean }} Activity */

/** Consumers are asked for of so many streams at once. */
const STREAMS_ASKED = 30;
/** Servers are asked for all streams up to so many; of more the answer would be too large. */
const MOST_STREAMS = 1_000;

/**
 * The streams of an account, the first page of them, and the consumers of those that have some.
 * @param {Link} link
 * @returns {Promise<Activity>}
 */
export async function accountActivity(link) {
  const page = await streams(link);
  const found = page.streams ?? [];
  const account = link.who.account;
  const asked = found.filter((stream) => stream.state.consumer_count > 0).slice(0, STREAMS_ASKED);
  const lists = [];
  for (const stream of asked) lists.push(await consumers(link, stream.config.name));
  return {
    streams: found.map(({ config, state }) => ({ account, stream: config.name, messages: state.messages, bytes: state.bytes, lastSequence: state.last_seq })),
    consumers: lists.flatMap((list) => list.consumers ?? []).map((one) => ({
      account, stream: one.stream_name, name: one.name, unprocessed: one.num_pending, unacked: one.num_ack_pending,
    })),
    total: page.total,
    isWhole: found.length === page.total && asked.length === found.filter((stream) => stream.state.consumer_count > 0).length,
  };
}

/**
 * @typedef {{ streams: number, consumers: number, account_details?: { name: string, stream_detail?: StreamDetail[] }[] }} JetStreamDocument
 * @typedef {{ name: string, cluster?: { leader?: string }, state: { messages: number, bytes: number, last_seq: number },
 *   consumer_detail?: { name: string, stream_name: string, num_pending: number, num_ack_pending: number }[] }} StreamDetail
 */

/**
 * The streams of all accounts, each from the server that leads it.
 * @param {Link} link
 * @returns {Promise<Activity>}
 */
export async function operatorActivity(link) {
  const totals = /** @type {import("../nats/system.js").FromServer<JetStreamDocument>[]} */ (await everyServer(link, "JSZ"));
  const total = Math.max(0, ...totals.map((one) => one.data?.streams ?? 0));
  if (total > MOST_STREAMS) return { streams: [], consumers: [], total, isWhole: false };
  const answers = /** @type {import("../nats/system.js").FromServer<JetStreamDocument>[]} */ (
    await everyServer(link, "JSZ", { accounts: true, streams: true, consumer: true, limit: 1_024 }, { expected: totals.length })
  );
  /** @type {Map<string, ActiveStream>} */
  const streamsFound = new Map();
  /** @type {Map<string, ActiveConsumer>} */
  const consumersFound = new Map();
  for (const { server, data } of answers) {
    for (const account of data?.account_details ?? []) {
      for (const stream of account.stream_detail ?? []) {
        const key = `${account.name}\n${stream.name}`;
        const leads = !stream.cluster?.leader || stream.cluster.leader === server.name;
        if (streamsFound.has(key) && !leads) continue;
        streamsFound.set(key, { account: account.name, stream: stream.name, messages: stream.state.messages, bytes: stream.state.bytes, lastSequence: stream.state.last_seq });
        for (const one of stream.consumer_detail ?? []) {
          consumersFound.set(`${key}\n${one.name}`, { account: account.name, stream: stream.name, name: one.name, unprocessed: one.num_pending, unacked: one.num_ack_pending });
        }
      }
    }
  }
  return { streams: [...streamsFound.values()], consumers: [...consumersFound.values()], total, isWhole: true };
}
