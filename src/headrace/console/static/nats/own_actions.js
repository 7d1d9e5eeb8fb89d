/**
 * What this tab had servers change, for who looks back. It is in memory only, and gone with the tab.
 * Never here: what is only read, and what lives as long as a page does, such as the consumers of a watch.
 */

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("../text/own_actions.js").ActionName} ActionName */
/** @typedef {{ id: number, at: number, what: ActionName, about: string, by: string, state: "sent" | "done" | "failed", problem: unknown }} OwnAction about: names, joined by " › " */

/** The oldest are forgotten beyond so many. */
const MOST = 500;

class OwnActions extends EventTarget {
  /** Oldest first. @type {OwnAction[]} */
  all = [];

  /** @param {OwnAction} action */
  add(action) {
    this.all.push(action);
    if (this.all.length > MOST) this.all.shift();
    this.changed();
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const ownActions = new OwnActions();
let last = 0;

/**
 * Write down what a request does, and how it ended. Gives the request's own result, or raises what it raises.
 *
 * @template T
 * @param {Link} link
 * @param {ActionName} what
 * @param {string[]} about names of what is changed, the outermost first
 * @param {Promise<T>} request
 * @returns {Promise<T>}
 */
export async function noted(link, what, about, request) {
  const by = `${link.who.user || "–"} · ${link.who.account || (link.role === "operator" ? "$SYS" : "$G")}`;
  const action = /** @type {OwnAction} */ ({ id: (last += 1), at: Date.now(), what, about: about.filter(Boolean).join(" › "), by, state: "sent", problem: null });
  ownActions.add(action);
  try {
    const result = await request;
    action.state = "done";
    return result;
  } catch (error) {
    Object.assign(action, { state: "failed", problem: error });
    throw error;
  } finally {
    ownActions.changed();
  }
}
