/** Two wide charts, of messages and of bytes, of one server or of all, over a time that a person chooses. */

import { h, replace } from "../../dom/element.js";
import { byteRate, rate } from "../../format.js";
import { text } from "../../text/overview.js";
import { card, choice } from "../../ui/blocks.js";
import { Chart } from "../../ui/chart.js";
import { select } from "../../ui/fields.js";

export class Charts {
  /**
   * @param {import("../../data/watch.js").Watch} watch
   * @param {"account" | "operator"} role
   * @param {AbortSignal} signal
   */
  constructor(watch, role, signal) {
    this.#watch = watch;
    this.#role = role;
    this.#messages = new Chart({ label: text.messages, lines: [{ name: "msgs_in", label: text.in }, { name: "msgs_out", label: text.out }], shown: rate, signal });
    this.#bytes = new Chart({ label: text.bytes, lines: [{ name: "bytes_in", label: text.in }, { name: "bytes_out", label: text.out }], shown: byteRate, isBinary: true, signal });
    this.#picker = h("span");
    const spans = choice(text.span, text.spans, "900", (value) => {
      this.#seconds = Number(value);
      this.draw();
    });
    this.element = h(
      "div",
      { class: "grid wide" },
      card(text.messages, { actions: [this.#picker, spans], flush: true }, this.#messages.element),
      card(text.bytes, { flush: true }, this.#bytes.element),
    );
  }

  /** @type {import("../../data/watch.js").Watch} */
  #watch;
  /** @type {"account" | "operator"} */
  #role;
  /** @type {Chart} */
  #messages;
  /** @type {Chart} */
  #bytes;
  /** @type {HTMLElement} */
  #picker;
  #seconds = 900;
  #server = "";
  #offered = "";

  draw() {
    if (this.#role === "operator") this.#offer();
    const series = this.#role === "account" ? this.#watch.account : (this.#watch.ofServer.get(this.#server) ?? this.#watch.all);
    this.#messages.show(series.window(["msgs_in", "msgs_out"], this.#seconds));
    this.#bytes.show(series.window(["bytes_in", "bytes_out"], this.#seconds));
  }

  /** Offer the servers, where there are several. */
  #offer() {
    const servers = this.#watch.byName.map(({ server }) => /** @type {[string, string]} */ ([server.id, server.name]));
    const offered = JSON.stringify(servers);
    if (servers.length < 2 || offered === this.#offered) return;
    this.#offered = offered;
    replace(
      this.#picker,
      select([["", text.allServers], ...servers], {
        value: this.#server, "aria-label": text.server,
        onchange: (/** @type {Event} */ event) => {
          this.#server = /** @type {HTMLSelectElement} */ (event.target).value;
          this.draw();
        },
      }),
    );
  }
}
