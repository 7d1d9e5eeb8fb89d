/**
 * Uploads and downloads of this tab: one after the other in each direction, each with its progress and a way to stop
 * it. They go on while other pages are looked at.
 * Never here: elements, what is sent (nats/objects.js).
 */

import { Stopped } from "../nats/objects.js";

/** @typedef {"up" | "down"} Direction */
/** @typedef {"waiting" | "running" | "done" | "failed" | "stopped"} State */
/** @typedef {{ id: number, direction: Direction, bucket: string, name: string, size: number, done: number, state: State, error: unknown, began: number, stop: () => void }} Transfer */
/** @typedef {(transfer: Transfer, signal: AbortSignal) => Promise<void>} Work tells its progress by `done` */

/** Events: "change" at most so often, in ms, and at each end. */
const TELL_MS = 100;

class Transfers extends EventTarget {
  /** The newest first. @type {Transfer[]} */
  list = [];
  #made = 0;
  #isTold = false;
  /** @type {Record<Direction, Promise<void>>} */
  #lines = { up: Promise.resolve(), down: Promise.resolve() };

  get isBusy() {
    return this.list.some((one) => one.state === "running" || one.state === "waiting");
  }

  /**
   * Add a transfer to its line; done when it ended, in whatever way.
   *
   * @param {{ direction: Direction, bucket: string, name: string, size: number }} what
   * @param {Work} work
   */
  add(what, work) {
    const controller = new AbortController();
    /** @type {Transfer} */
    const transfer = { ...what, id: (this.#made += 1), done: 0, state: "waiting", error: null, began: 0, stop: () => this.#stop(transfer, controller) };
    this.list.unshift(transfer);
    this.tell();
    const ended = this.#lines[what.direction].then(() => this.#run(transfer, controller, work));
    this.#lines[what.direction] = ended;
    return ended.then(() => transfer);
  }

  /** Take those that have ended off the list. */
  clear() {
    this.list = this.list.filter((one) => one.state === "running" || one.state === "waiting");
    this.dispatchEvent(new Event("change"));
  }

  tell() {
    if (this.#isTold) return;
    this.#isTold = true;
    setTimeout(() => {
      this.#isTold = false;
      this.dispatchEvent(new Event("change"));
    }, TELL_MS);
  }

  /**
   * @param {Transfer} transfer
   * @param {AbortController} controller
   * @param {Work} work
   */
  async #run(transfer, controller, work) {
    if (transfer.state !== "waiting") return;
    transfer.state = "running";
    transfer.began = Date.now();
    try {
      await work(transfer, controller.signal);
      transfer.state = "done";
    } catch (error) {
      transfer.state = error instanceof Stopped ? "stopped" : "failed";
      transfer.error = error;
    }
    this.tell();
  }

  /**
   * @param {Transfer} transfer
   * @param {AbortController} controller
   */
  #stop(transfer, controller) {
    if (transfer.state === "waiting") transfer.state = "stopped";
    controller.abort();
    this.tell();
  }
}

export const transfers = new Transfers();

window.addEventListener("beforeunload", (event) => {
  if (transfers.isBusy) event.preventDefault();
});
