/** Short messages at the corner: what was done, with a way back while there is one. */

import { h, visible } from "../dom/element.js";
import { text } from "../text/common.js";
import { explained } from "../text/problems.js";

const SHOWN_MS = 4_000;
/** How long an action waits before it is sent, so that it can be taken back. */
export const UNDO_MS = 5_000;

const box = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
document.body.append(box);

/**
 * @param {string} words
 * @param {{ tone?: "" | "bad", action?: { label: string, press: () => void }, shownMs?: number }} [options]
 * @returns {() => void} takes it away
 */
export function say(words, { tone = "", action, shownMs = SHOWN_MS } = {}) {
  const away = () => {
    clearTimeout(timer);
    toast.remove();
  };
  const toast = h(
    "div",
    { class: `toast ${tone}`.trim() },
    h("span", { dir: "auto" }, visible(words)),
    action && h("button", { class: "button small", type: "button", onclick: () => { away(); action.press(); } }, action.label),
  );
  const timer = setTimeout(away, tone === "bad" ? shownMs * 2 : shownMs);
  box.append(toast);
  return away;
}

/**
 * Do something after a while in which a person can take it back: the request has not been sent until then. True when
 * it is to be done.
 *
 * @param {string} words what is about to be done
 * @returns {Promise<boolean>}
 */
export function undoable(words) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(true), UNDO_MS);
    say(words, {
      shownMs: UNDO_MS,
      action: {
        label: text.undo,
        press: () => {
          clearTimeout(timer);
          resolve(false);
        },
      },
    });
  });
}

/**
 * Do something at once that needs no dialog, and say how it went. True when it is done.
 *
 * @param {() => Promise<unknown>} run
 * @param {string} done
 */
export async function attempt(run, done) {
  try {
    await run();
  } catch (error) {
    const { title, detail } = explained(error);
    say([title, detail].filter(Boolean).join(" "), { tone: "bad" });
    return false;
  }
  say(done);
  return true;
}
