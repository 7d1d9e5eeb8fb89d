/**
 * The pages of consumers: those of all streams, and one consumer. What one shows is in pages/consumers/.
 *
 * Addresses: `#/consumers`, `#/consumers/ORDERS/worker`; `#/consumers/ORDERS` is a part of the stream's page.
 */

import { to } from "../app.js";
import { showAll } from "./consumers/all.js";
import { showConsumer } from "./consumers/one.js";

/** @param {import("./index.js").Place} place */
export async function show(place) {
  if (place.path.length > 1) showConsumer(place);
  else if (place.path.length) location.replace(to("streams", [place.path[0], "consumers"]));
  else await showAll(place);
}
