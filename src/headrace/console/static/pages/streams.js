/**
 * The pages of streams: the list, and one stream with its parts. What each shows is in pages/streams/.
 *
 * Addresses: `#/streams`, `#/streams/ORDERS`, `#/streams/ORDERS/messages?from=1200&subject=orders.eu.>`; without a
 * part, `from`, `seq` and `subject` mean the messages.
 */

import { showList } from "./streams/list.js";
import { showStream } from "./streams/one.js";

/** @param {import("./index.js").Place} place */
export async function show(place) {
  if (place.path.length) await showStream(place);
  else showList(place);
}
