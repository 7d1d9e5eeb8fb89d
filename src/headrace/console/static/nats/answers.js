/**
 * Answers as they come: their JSON, the errors in them, and the exceptions of nats-core as ours.
 * Never here: what is asked.
 */

import { NoAnswer, NoRight, NobodyThere, NotConnected, Refused, StrangeAnswer } from "./errors.js";

/** @typedef {import("../vendor/nats-core.js").Msg} Msg */

/** @param {Msg} message */
export function isNobody(message) {
  return message.data.length === 0 && message.headers?.code === 503;
}

/**
 * The JSON of an answer. Raises: StrangeAnswer.
 * @param {Msg} message
 * @returns {unknown}
 */
export function readJson(message) {
  try {
    return JSON.parse(new TextDecoder().decode(message.data));
  } catch {
    throw new StrangeAnswer(`the answer to "${message.subject}" is no JSON`);
  }
}

/**
 * The answer, if it has no error. Raises: Refused.
 * @param {unknown} answer
 */
export function checked(answer) {
  const said = /** @type {{ error?: { code?: number, err_code?: number, description?: string } | string } | null} */ (answer);
  if (!said || typeof said !== "object" || !said.error) return answer;
  if (typeof said.error === "string") throw new Refused(400, 0, said.error);
  throw new Refused(said.error.code ?? 500, said.error.err_code ?? 0, said.error.description ?? "");
}

/**
 * An exception of nats-core as one of ours.
 * @param {unknown} error
 * @param {string} subject
 * @param {number} timeout
 * @returns {Error}
 */
export function translated(error, subject, timeout) {
  if (!(error instanceof Error)) return new Error(String(error));
  const cause = error.cause instanceof Error ? error.cause : error;
  for (const found of [error, cause]) {
    if (found.name === "PermissionViolationError") {
      const violation = /** @type {Error & { subject: string, operation: string }} */ (found);
      return new NoRight(violation.subject, violation.operation);
    }
    if (found.name === "NoResponders") return new NobodyThere(subject);
    if (found.name === "TimeoutError") return new NoAnswer(subject, timeout);
    if (found.name === "ClosedConnectionError" || found.name === "DrainingConnectionError") return new NotConnected(found.message);
  }
  return error;
}
