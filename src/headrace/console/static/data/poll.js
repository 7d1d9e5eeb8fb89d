/**
 * Asking again and again, so that a page is fresh and the server is not busy with it: one question of a kind is under
 * way, the next one is due some time after the answer, none while the tab is hidden, a person paused, or the connection
 * is gone.
 */

import { NoRight } from "../nats/errors.js";

/** A server writes each refused request into its log: what one may not ask for is asked for this seldom, in ms. */
const REFUSED_MS = 60_000;

class Switch extends EventTarget {
  isOn = false;
  /** How often it was turned. */
  turns = 0;

  /** @param {boolean} isOn */
  set(isOn) {
    if (isOn === this.isOn) return;
    this.isOn = isOn;
    this.turns += 1;
    this.dispatchEvent(new Event("change"));
  }
}

/** What a person switched off for all pages. */
export const pause = new Switch();

/** On while a connection is gone: what is shown stays, and is asked for again when it is back. */
export const outage = new Switch();

/** What a page returns from `failed` that goes on showing what it had: the frame then says that it is old, and why. */
export const KEPT = Symbol("kept");

/** Errors since when something that is still shown could not be asked for again. @type {Map<object, { error: unknown, since: number }>} */
const stale = new Map();

/** The oldest of what is shown and could not be refreshed; null where all is fresh. */
export function oldest() {
  return [...stale.values()].sort((a, b) => a.since - b.since)[0] ?? null;
}

/**
 * Ask now, and again `every` ms after each answer, until the signal is aborted. Gives a function that asks at once.
 * `failed` is not told of what the end of a connection brings about; it may return `KEPT`.
 *
 * @template T
 * @param {{ every: number | ((answer: T | undefined) => number), ask: () => Promise<T>, show: (answer: T) => void,
 *   failed?: (error: unknown) => unknown, signal: AbortSignal }} options
 * @returns {() => void}
 */
export function poll({ every, ask, show, failed = () => {}, signal }) {
  let timer = 0;
  let isAsking = false;
  let isDue = false;
  let answeredAt = Date.now();
  const me = {};

  const isQuiet = () => document.hidden || pause.isOn || outage.isOn;

  const round = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (isAsking) {
      isDue = true;
      return;
    }
    isAsking = true;
    isDue = false;
    /** @type {T | undefined} */
    let answer;
    const turns = outage.turns;
    let isRefused = false;
    try {
      answer = await ask();
      answeredAt = Date.now();
      stale.delete(me);
      if (!signal.aborted) show(answer);
    } catch (error) {
      isRefused = error instanceof NoRight;
      if (outage.turns !== turns || outage.isOn) isDue = true;
      else if (!signal.aborted && failed(error) === KEPT) stale.set(me, { error, since: answeredAt });
    } finally {
      isAsking = false;
    }
    if (signal.aborted) return;
    if (isDue && !outage.isOn) void round();
    else if (!isDue) timer = window.setTimeout(tick, isRefused ? REFUSED_MS : typeof every === "number" ? every : every(answer));
  };
  const tick = () => {
    if (isQuiet()) isDue = true;
    else void round();
  };
  const wake = () => {
    if (isDue && !isQuiet()) void round();
  };
  document.addEventListener("visibilitychange", wake, { signal });
  pause.addEventListener("change", wake, { signal });
  outage.addEventListener("change", wake, { signal });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    stale.delete(me);
  });
  void round();
  return () => void round();
}

/** Pauses between two questions, in ms: of a figure, of a list with over a thousand entries. */
export const OFTEN = 2_000;
export const SELDOM = 10_000;
