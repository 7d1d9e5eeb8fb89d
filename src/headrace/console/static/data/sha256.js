/**
 * SHA-256 of data that comes in parts: the browser's own digest wants all of it at once, and pages without TLS have
 * none. Source: FIPS 180-4.
 */

const K = new Uint32Array(64);
const START = new Uint32Array(8);

/** The first bits of the fractions of roots of the first primes, from which the standard takes its constants. */
function makeConstants() {
  const fraction = (/** @type {number} */ value) => Math.floor((value - Math.floor(value)) * 2 ** 32);
  for (let number = 2, found = 0; found < 64; number += 1) {
    if (!isPrime(number)) continue;
    if (found < 8) START[found] = fraction(Math.sqrt(number));
    K[found] = fraction(Math.cbrt(number));
    found += 1;
  }
}

/** @param {number} number */
function isPrime(number) {
  for (let divisor = 2; divisor * divisor <= number; divisor += 1) if (number % divisor === 0) return false;
  return true;
}

makeConstants();

const BLOCK = 64;

export class Sha256 {
  #state = START.slice();
  #words = new Uint32Array(64);
  #rest = new Uint8Array(BLOCK);
  #restLength = 0;
  #length = 0;

  /** @param {Uint8Array} data */
  update(data) {
    this.#length += data.length;
    let start = 0;
    if (this.#restLength) {
      start = Math.min(BLOCK - this.#restLength, data.length);
      this.#rest.set(data.subarray(0, start), this.#restLength);
      this.#restLength += start;
      if (this.#restLength < BLOCK) return;
      this.#block(this.#rest, 0);
      this.#restLength = 0;
    }
    for (; start + BLOCK <= data.length; start += BLOCK) this.#block(data, start);
    this.#rest.set(data.subarray(start));
    this.#restLength = data.length - start;
  }

  /** The digest, 32 bytes; nothing may be added behind it. */
  digest() {
    const bits = this.#length * 8;
    const end = new Uint8Array(this.#restLength < 56 ? BLOCK - this.#restLength : 2 * BLOCK - this.#restLength);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    const found = new Uint8Array(32);
    this.#state.forEach((word, place) => new DataView(found.buffer).setUint32(place * 4, word));
    return found;
  }

  /**
   * @param {Uint8Array} data
   * @param {number} start
   */
  #block(data, start) {
    const w = this.#words;
    for (let t = 0; t < 16; t += 1, start += 4) w[t] = (data[start] << 24) | (data[start + 1] << 16) | (data[start + 2] << 8) | data[start + 3];
    for (let t = 16; t < 64; t += 1) {
      const [p, q] = [w[t - 15], w[t - 2]];
      const s0 = ((p >>> 7) | (p << 25)) ^ ((p >>> 18) | (p << 14)) ^ (p >>> 3);
      const s1 = ((q >>> 17) | (q << 15)) ^ ((q >>> 19) | (q << 13)) ^ (q >>> 10);
      w[t] = (w[t - 16] + s0 + w[t - 7] + s1) | 0;
    }
    const s = this.#state;
    let a = s[0] | 0, b = s[1] | 0, c = s[2] | 0, d = s[3] | 0, e = s[4] | 0, f = s[5] | 0, g = s[6] | 0, h = s[7] | 0;
    for (let t = 0; t < 64; t += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + one) | 0;
      d = c; c = b; b = a; a = (one + two) | 0;
    }
    s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e; s[5] += f; s[6] += g; s[7] += h;
  }
}
