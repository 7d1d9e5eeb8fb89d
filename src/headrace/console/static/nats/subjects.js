/**
 * Subjects and patterns of subjects: what is one, which pattern takes which subject. `*` stands for one token, `>` for
 * all that follow.
 */

/**
 * True if a text can be subscribed to, or with `wildcards: false` be published to.
 *
 * @param {string} text
 * @param {{ wildcards?: boolean }} [options]
 */
export function isSubject(text, { wildcards = true } = {}) {
  const tokens = text.split(".");
  return tokens.every((token, place) => {
    if (!token || /[\s\u0000]/.test(token)) return false;
    if (token === ">") return wildcards && place === tokens.length - 1;
    return wildcards || token !== "*";
  });
}

/**
 * True if all subjects that `inner` takes are taken by `pattern`, too; `inner` may be one subject.
 *
 * @param {string} pattern
 * @param {string} inner
 */
export function covers(pattern, inner) {
  const outer = pattern.split(".");
  const tokens = inner.split(".");
  for (let place = 0; place < outer.length; place += 1) {
    if (outer[place] === ">") return tokens.length > place;
    if (place >= tokens.length || tokens[place] === ">") return false;
    if (outer[place] !== "*" && outer[place] !== tokens[place]) return false;
  }
  return outer.length === tokens.length;
}

/**
 * True if some subject is taken by both patterns.
 *
 * @param {string} one
 * @param {string} other
 */
export function overlaps(one, other) {
  const [a, b] = [one.split("."), other.split(".")];
  for (let place = 0; ; place += 1) {
    if (a[place] === ">" && place < b.length) return true;
    if (b[place] === ">" && place < a.length) return true;
    if (place === a.length || place === b.length) return a.length === b.length;
    if (a[place] !== b[place] && a[place] !== "*" && b[place] !== "*") return false;
  }
}

/**
 * The patterns without those that another one covers: each message then comes once.
 * @param {string[]} patterns
 */
export function withoutCovered(patterns) {
  return patterns.filter((pattern, place) => !patterns.some((other, at) => at !== place && covers(other, pattern) && (at < place || !covers(pattern, other))));
}
