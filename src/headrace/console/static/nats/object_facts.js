/**
 * The facts of an object as they are stored: its name, size, digest, and what people noted with it.
 * Never here: requests (objects.js).
 */

/**
 * The facts of an object. `link`: the bucket, and the object unless it is the whole bucket, that it leads to.
 * @typedef {{ bucket: string, name: string, nuid: string, size: number, chunks: number, digest: string, modified: number, description: string,
 *   headers: Record<string, string[]>, metadata: Record<string, string>, chunkSize: number, isDeleted: boolean, link: { bucket: string, name: string } | null,
 *   sequence: number }} ObjectFacts modified in ms
 */

/** Objects are cut into chunks of so many bytes. */
export const CHUNK = 131_072;

/**
 * The facts of an object from its message; what is no such message gives an object without a digest, whose name tells.
 *
 * @param {{ subject: string, sequence: number, time: string | number, data: Uint8Array }} message
 * @returns {ObjectFacts}
 */
export function factsOf({ subject, sequence, time, data }) {
  const found = readDocument(data);
  const options = found.options ?? {};
  return {
    bucket: subject.split(".")[1],
    name: typeof found.name === "string" ? found.name : decodedName(subject),
    nuid: String(found.nuid ?? ""),
    size: Number(found.size) || 0,
    chunks: Number(found.chunks) || 0,
    digest: String(found.digest ?? ""),
    modified: new Date(time).getTime(),
    description: String(found.description ?? ""),
    headers: found.headers ?? {},
    metadata: found.metadata ?? {},
    chunkSize: Number(options.max_chunk_size) || CHUNK,
    isDeleted: Boolean(found.deleted),
    link: options.link ? { bucket: String(options.link.bucket), name: String(options.link.name ?? "") } : null,
    sequence,
  };
}

/** @param {Uint8Array} data @returns {Record<string, any>} */
function readDocument(data) {
  try {
    const found = JSON.parse(new TextDecoder().decode(data));
    return found && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}

/** @param {ObjectFacts} facts */
export function documentOf(facts) {
  const { name, description, headers, metadata, bucket, nuid, size, chunks, digest, link } = facts;
  return {
    name,
    ...(description && { description }),
    ...(Object.keys(headers).length && { headers }),
    ...(Object.keys(metadata).length && { metadata }),
    options: link ? { link: link.name ? link : { bucket: link.bucket } } : { max_chunk_size: facts.chunkSize },
    bucket, nuid, size, mtime: "0001-01-01T00:00:00Z", chunks, // the time is that of the message
    ...(digest && { digest }),
    ...(facts.isDeleted && { deleted: true }),
  };
}

/** @param {string} name */
export function encodedName(name) {
  return toBase64Url(new TextEncoder().encode(name));
}

/** @param {string} subject */
export function decodedName(subject) {
  const encoded = subject.split(".").slice(3).join(".").replaceAll("-", "+").replaceAll("_", "/");
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0)));
  } catch {
    return encoded;
  }
}

/** @param {Uint8Array} data */
function toBase64Url(data) {
  return btoa(String.fromCharCode(...data)).replaceAll("+", "-").replaceAll("/", "_");
}

/** @param {Uint8Array} digest */
export function shownDigest(digest) {
  return `SHA-256=${toBase64Url(digest)}`;
}

/** A digest without its padding, which some clients leave out. @param {string} digest */
export function padded(digest) {
  const [algorithm, ...rest] = digest.split("=");
  return `${algorithm.toUpperCase()}=${rest.join("=").replace(/=+$/, "")}`;
}

/** A name for chunks that nobody has. */
export function newId() {
  const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return Array.from(crypto.getRandomValues(new Uint8Array(22)), (byte) => letters[byte % letters.length]).join("");
}
