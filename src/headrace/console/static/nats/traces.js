/**
 * The way of a message through servers: a header asks for it, each server that the message passes publishes one event.
 * Source: ADR-41 of NATS.
 */

import { readJson } from "./answers.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./messages.js").Draft} Draft */

/**
 * What happened to a message in a server; `type`: in, sm, se, si, js, eg.
 * @typedef {Record<string, unknown> & { type: string, ts?: string, kind?: number, error?: string }} TraceStep
 * @typedef {{ server: { name?: string, cluster?: string }, hop: string, steps: TraceStep[] }} TracedServer
 */

/** The headers of a message that is traced: where to, and whether it is delivered to nobody. */
const DEST = "Nats-Trace-Dest";
const ONLY = "Nats-Trace-Only";
const HOP = "Nats-Trace-Hop";

/**
 * Listen to what servers tell of one message.
 *
 * @param {Link} link
 * @param {{ take: (server: TracedServer) => void, failed: (error: unknown) => void, signal: AbortSignal }} options
 * @returns {(draft: Draft, options: { only: boolean }) => Draft} gives a draft the headers that ask for it
 */
export function listenForTrace(link, { take, failed, signal }) {
  const inbox = link.newInbox();
  link.listen(inbox, (message) => {
    try {
      take(readTrace(readJson(message)));
    } catch (error) {
      failed(error);
    }
  }, { signal, failed });
  return (draft, { only }) => ({ ...draft, headers: [...draft.headers.filter(([name]) => name !== DEST && name !== ONLY), [DEST, inbox], ...(only ? [/** @type {[string, string]} */ ([ONLY, "true"])] : [])] });
}

/**
 * @param {unknown} document
 * @returns {TracedServer}
 */
function readTrace(document) {
  const { server, request, events } = /** @type {{ server?: TracedServer["server"], request?: { header?: Record<string, string[]> }, events?: TraceStep[] }} */ (document ?? {});
  const hop = request?.header?.[HOP]?.[0];
  return { server: server ?? {}, hop: typeof hop === "string" ? hop : "", steps: Array.isArray(events) ? events.filter((step) => step && typeof step === "object") : [] };
}
