/** Errors in words for people: what happened, and what to do next. */

import { NoAnswer, NoBucket, NoRight, NobodyThere, NotConnected, Refused, StrangeAnswer } from "../nats/errors.js";

/** JetStream's codes that have a better next step than the server's own words. */
const BY_CODE = /** @type {Record<number, [string, string]>} */ ({
  10039: ["JetStream is not enabled in this account.", "The account needs `jetstream: enabled`, or a limit in its JWT."],
  10076: ["JetStream is not enabled on this server.", "Start it with -js, or with a jetstream {} block."],
  10059: ["This stream does not exist any more.", "Go back to the list."],
  10014: ["This consumer does not exist any more.", "Go back to its stream."],
  10071: ["Somebody else changed it meanwhile.", "Look at the new value, then decide."],
  10023: ["The account's or the server's resources are used up.", "Look at the limits of the account."],
  10047: ["There is not enough storage left.", "Look at the limits of the account."],
  10008: ["JetStream has no leader just now.", "It answers again when its servers have chosen one."],
  10009: ["No server leads this just now.", "It answers again when another server has taken over."],
});

/**
 * @param {unknown} error
 * @returns {{ title: string, next?: string, detail?: string }}
 */
export function explained(error) {
  if (error instanceof NoRight) {
    const what = error.operation === "publish" ? "publish to" : "subscribe to";
    return { title: "Your user has no right to this.", next: `It may not ${what} the subject below. Who runs the account can allow it.`, detail: error.subject };
  }
  if (error instanceof NobodyThere && /^\$JS\.API\.(INFO$|STREAM\.|CONSUMER\.(?!MSG))/.test(error.subject)) {
    return { title: "JetStream is not enabled in this account.", next: "The account needs `jetstream: enabled`, or a limit in its JWT; the server -js, or a jetstream {} block." };
  }
  if (error instanceof NobodyThere) return { title: "Nobody answers there.", next: "The server does not have it, or it is switched off for this account.", detail: error.subject };
  if (error instanceof NoAnswer) return { title: "No answer came in time.", next: "The server is busy, or a right is missing that it does not tell.", detail: error.message };
  if (error instanceof NotConnected) return { title: "There is no connection just now.", detail: error.message };
  if (error instanceof NoBucket) return { title: "There is no bucket with this name.", next: "It was deleted, or it is in another account.", detail: error.bucket };
  if (error instanceof StrangeAnswer) return { title: "The answer could not be read.", next: "The server may be too old or too new for this page.", detail: error.message };
  if (error instanceof Refused) {
    const known = BY_CODE[error.errorCode];
    return known ? { title: known[0], next: known[1], detail: `${error.message} (${error.errorCode})` } : { title: "The server said no.", detail: `${error.message}${error.errorCode ? ` (${error.errorCode})` : ""}` };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { title: "That did not work.", detail: message };
}
