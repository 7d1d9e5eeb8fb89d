/** A worker that reads large JSON, so that the page goes on meanwhile. */

import { readExactly } from "../data/exact_json.js";

self.onmessage = ({ data }) => {
  try {
    self.postMessage({ value: readExactly(new TextDecoder().decode(data)) });
  } catch (error) {
    self.postMessage({ error: /** @type {Error} */ (error).message });
  }
};
