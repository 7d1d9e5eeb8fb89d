/**
 * Asking again and again, so that a page is fresh and the server is not busy with it: one question of a kind is under
 * way, the next one is due some time after the answer, none while the tab is hidden or a person paused.
 */

/** What a person switched off for all pages. */
export const pause = new (class extends EventTarget {
  isOn = false;

  /** @param {boolean} isOn */
  set(isOn) {
    this.isOn = isOn;
    this.dispatchEvent(new Event("change"));
  }
})();

/**
 * Ask now, and again `every` ms after each answer, until the signal is aborted. Gives a function that asks at once.
 *
 * @template T
 * @param {{ every: number | ((answer: T | undefined) => number), ask: () => Promise<T>, show: (answer: T) => void,
 *   failed?: (error: unknown) => void, signal: AbortSignal }} options
 * @returns {() => void}
 */
export function poll({ every, ask, show, failed = () => {}, signal }) {
  let timer = 0;
  let isAsking = false;
  let isDue = false;

  const isQuiet = () => document.hidden || pause.isOn;

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
    try {
      answer = await ask();
      if (!signal.aborted) show(answer);
    } catch (error) {
      if (!signal.aborted) failed(error);
    } finally {
      isAsking = false;
    }
    if (signal.aborted) return;
    if (isDue) void round();
    else timer = window.setTimeout(tick, typeof every === "number" ? every : every(answer));
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
  signal.addEventListener("abort", () => clearTimeout(timer));
  void round();
  return () => void round();
}

/** Pauses between two questions, in ms: of a figure, of a list with over a thousand entries. */
export const OFTEN = 2_000;
export const SELDOM = 10_000;
