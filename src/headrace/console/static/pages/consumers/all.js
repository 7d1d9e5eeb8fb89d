/** The consumers of all streams of the account; of very many streams those of the first ones that have some. */

import { h, replace } from "../../dom/element.js";
import { useStyles } from "../../dom/styles.js";
import { count } from "../../format.js";
import { streams } from "../../nats/jetstream.js";
import { text } from "../../text/consumers.js";
import { button, onCommandLine, pageHead } from "../../ui/blocks.js";
import { KEPT, poll } from "../../data/poll.js";
import { failure } from "../../ui/empty.js";
import { ConsumerTable } from "./table.js";

/** The consumers of so many streams are read, then as many more where a person asks. */
const STEP = 100;
/** Which streams have consumers is looked at again after so long, in ms. */
const STREAMS_MS = 30_000;

/** @param {import("../index.js").Place} place */
export async function showAll(place) {
  void useStyles("streams");
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const said = h("span", { class: "muted small", role: "status" });
  const more = h("span");
  const table = new ConsumerTable(place, link, { foot: [more] });
  const body = h("div", { class: "card" });
  replace(place.host, pageHead(text.title, { sub: text.sub }), body, said, onCommandLine("headrace consumer report ORDERS --sort lag"));

  let most = STEP;
  let isFirst = true;
  /** @type {string[]} */
  let names = [];
  let total = 0;
  /** @type {(() => void) | null} */
  let ask = null;
  const drawMore = () => {
    said.textContent = names.length < total ? text.part(count(names.length), count(total)) : "";
    replace(more, names.length < total && button(text.readMore, () => { most += STEP; look(); }, { kind: "small" }));
  };
  const look = poll({
    every: STREAMS_MS,
    signal: place.signal,
    ask: async () => {
      const found = /** @type {import("../../nats/jetstream.js").StreamInfo[]} */ ([]);
      for (let offset = 0, all = 1; offset < all && !place.signal.aborted; ) {
        const answer = await streams(link, { offset });
        if (!answer.streams?.length) break;
        found.push(...answer.streams.filter((stream) => stream.state.consumer_count));
        offset += answer.streams.length;
        all = answer.total;
      }
      return found;
    },
    show: (found) => {
      total = found.length;
      for (const stream of found) table.know(stream.config);
      names = found.slice(0, most).map((stream) => stream.config.name);
      if (isFirst) replace(body, table.element);
      isFirst = false;
      if (ask) ask();
      else ask = table.follow(() => names, (done, all) => { said.textContent = done < all && all > 16 ? text.reading(count(done), count(all)) : said.textContent; if (done === all) drawMore(); });
      drawMore();
    },
    failed: (error) => {
      if (isFirst) return replace(body, failure(error));
      return KEPT;
    },
  });
}
