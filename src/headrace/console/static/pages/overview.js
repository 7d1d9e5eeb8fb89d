/** @param {import("./index.js").Place} place */
export function show({ host }) {
  host.append("overview");
}
