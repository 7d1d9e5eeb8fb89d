/**
 * Services of the micro framework: which there are, their endpoints, how often they were asked. Every instance answers
 * for itself. Source: ADR-32 of NATS.
 */

import { NobodyThere, NoAnswer } from "./errors.js";
import { readJson } from "./answers.js";

/** @typedef {import("./link.js").Link} Link */

/**
 * @typedef {{ name: string, subject: string, queue_group?: string, metadata?: Record<string, string> }} EndpointInfo
 * @typedef {{ name: string, id: string, version: string, description?: string, metadata?: Record<string, string>, endpoints: EndpointInfo[] }} InstanceInfo
 * @typedef {{ name: string, subject: string, queue_group?: string, num_requests: number, num_errors: number, last_error?: string,
 *   processing_time: number, average_processing_time: number }} EndpointStats durations in nanoseconds
 * @typedef {{ name: string, id: string, version: string, started?: string, endpoints: EndpointStats[] }} InstanceStats
 * @typedef {{ name: string, id: string, version: string, ms: number }} Pong
 */

/**
 * Answers of instances; `strange`: how many answers could not be read.
 * @template T @typedef {{ found: T[], strange: number }} Answers
 */

/** So many instances are taken; what answers beyond that is left out. */
export const MOST_INSTANCES = 10_000;

/**
 * @param {Link} link
 * @param {string} [service] the name of one; all without it
 * @returns {Promise<Answers<InstanceInfo>>}
 */
export function serviceInfos(link, service) {
  return answers(link, "INFO", service, (said) => /** @type {InstanceInfo} */ ({ ...identity(said), description: text(said.description), metadata: words(said.metadata), endpoints: list(said.endpoints).map(endpointInfo) }));
}

/**
 * @param {Link} link
 * @param {string} [service]
 * @returns {Promise<Answers<InstanceStats>>}
 */
export function serviceStats(link, service) {
  return answers(link, "STATS", service, (said) => ({ ...identity(said), started: text(said.started), endpoints: list(said.endpoints).map(endpointStats) }));
}

/**
 * Ping the instances of a service; each answer has the time it took, in ms.
 * @param {Link} link
 * @param {string} service
 * @returns {Promise<Answers<Pong>>}
 */
export function pingService(link, service) {
  const began = performance.now();
  return answers(link, "PING", service, (said) => ({ ...identity(said), ms: performance.now() - began }));
}

/**
 * @template T
 * @param {Link} link
 * @param {"PING" | "INFO" | "STATS"} verb
 * @param {string | undefined} service
 * @param {(said: Record<string, unknown>) => T} read
 * @returns {Promise<Answers<T>>}
 */
async function answers(link, verb, service, read) {
  const found = /** @type {T[]} */ ([]);
  let strange = 0;
  try {
    await link.eachAnswer(service ? `$SRV.${verb}.${service}` : `$SRV.${verb}`, "", {
      quiet: 400,
      timeout: 2_000,
      take: (message) => {
        try {
          found.push(read(/** @type {Record<string, unknown>} */ (readJson(message))));
        } catch {
          strange += 1; // it is told how many there were
        }
        return found.length + strange < MOST_INSTANCES;
      },
    });
  } catch (error) {
    if (!(error instanceof NobodyThere || error instanceof NoAnswer)) throw error; // no service is no error
  }
  return { found, strange };
}

/**
 * Who answers. Raises: TypeError for what is no answer of a service.
 * @param {Record<string, unknown>} said
 */
function identity(said) {
  if (typeof said?.name !== "string" || typeof said.id !== "string") throw new TypeError("no answer of a service");
  return { name: said.name, id: said.id, version: text(said.version) };
}

/** @param {Record<string, unknown>} said @returns {EndpointInfo} */
function endpointInfo(said) {
  return { name: text(said.name), subject: text(said.subject), queue_group: text(said.queue_group), metadata: words(said.metadata) };
}

/** @param {Record<string, unknown>} said @returns {EndpointStats} */
function endpointStats(said) {
  return {
    name: text(said.name), subject: text(said.subject), queue_group: text(said.queue_group), num_requests: number(said.num_requests), num_errors: number(said.num_errors),
    last_error: text(said.last_error), processing_time: number(said.processing_time), average_processing_time: number(said.average_processing_time),
  };
}

/** @param {unknown} value */
function text(value) {
  return typeof value === "string" ? value : "";
}

/** @param {unknown} value */
function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** @param {unknown} value @returns {Record<string, unknown>[]} */
function list(value) {
  return Array.isArray(value) ? value.filter((item) => item && typeof item === "object") : [];
}

/** @param {unknown} value @returns {Record<string, string>} */
function words(value) {
  return value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, String(item)])) : {};
}
