/** What watches of buckets have in common: they rest while nobody looks, and a user may have no right to one. */

import { NoAnswer, NoRight } from "../nats/errors.js";
import { pause } from "./poll.js";

/**
 * Stop a watch while the tab is hidden or a person paused; it misses nothing that the bucket keeps.
 *
 * @param {import("../nats/ordered.js").Ordered} watch
 * @param {AbortSignal} signal
 */
export function restWhileUnseen(watch, signal) {
  let isResting = false;
  const turn = () => {
    const shouldRest = document.hidden || pause.isOn;
    if (shouldRest === isResting || watch.hasFailed) return;
    isResting = shouldRest;
    if (isResting) watch.pause();
    else void watch.resume();
  };
  document.addEventListener("visibilitychange", turn, { signal });
  pause.addEventListener("change", turn, { signal });
}

/**
 * True if an error says that the user may not make a consumer; a server that does not tell leaves the request without an answer.
 * @param {unknown} error
 */
export function mayNotWatch(error) {
  return error instanceof NoRight || error instanceof NoAnswer;
}
