/** A worker that reads large JSON, so that the page goes on meanwhile. */

self.onmessage = ({ data }) => {
  try {
    self.postMessage({ value: JSON.parse(new TextDecoder().decode(data)) });
  } catch (error) {
    self.postMessage({ error: /** @type {Error} */ (error).message });
  }
};
