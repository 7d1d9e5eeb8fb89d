/** What stands behind the question mark of a page's address, which a link that is sent takes along. */

/** The words of the address that is shown. */
export function addressQuery() {
  return new URLSearchParams(location.hash.split("?", 2)[1] ?? "");
}

/**
 * Have other words in the address that is shown, without another page: back leads to where it led before.
 * @param {Record<string, string | null | undefined>} changes a word without a value is taken out
 */
export function keepInAddress(changes) {
  const [place] = location.hash.split("?", 1);
  const query = addressQuery();
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  history.replaceState(null, "", `${place || "#/overview"}${query.size ? `?${query}` : ""}`);
}
