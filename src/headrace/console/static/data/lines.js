/**
 * The difference of two texts by lines: which went, which came, which stayed.
 * Never here: elements (ui/difference.js).
 */

/** @typedef {{ kind: "same" | "gone" | "new", text: string }} Line */

/** Texts that differ in more lines than this are shown as one block that went and one that came: the search for the shortest way costs the square. */
export const MOST_CHANGES = 500;

/**
 * The lines of both texts, in an order in which one becomes the other. Lines at both ends that are the same cost nothing.
 *
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function lineDifference(before, after) {
  const old = linesOf(before);
  const young = linesOf(after);
  let start = 0;
  while (start < old.length && start < young.length && old[start] === young[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < young.length - start && old[old.length - 1 - end] === young[young.length - 1 - end]) end += 1;
  return [
    ...old.slice(0, start).map(same),
    ...middle(old.slice(start, old.length - end), young.slice(start, young.length - end)),
    ...old.slice(old.length - end).map(same),
  ];
}

/** @param {string} text */
function linesOf(text) {
  return text === "" ? [] : text.split(/\r?\n/);
}

/** @param {string} text @returns {Line} */
const same = (text) => ({ kind: "same", text });
/** @param {string} text @returns {Line} */
const gone = (text) => ({ kind: "gone", text });
/** @param {string} text @returns {Line} */
const fresh = (text) => ({ kind: "new", text });

/**
 * The shortest way from one list to another (Myers), or all of the one and all of the other where it is long.
 *
 * @param {string[]} old
 * @param {string[]} young
 * @returns {Line[]}
 */
function middle(old, young) {
  if (!old.length || !young.length) return [...old.map(gone), ...young.map(fresh)];
  const trace = traceOf(old, young);
  return trace ? walkBack(old, young, trace) : [...old.map(gone), ...young.map(fresh)];
}

/**
 * For each number of changes, how far each diagonal came; null where there are more than `MOST_CHANGES`.
 *
 * @param {string[]} old
 * @param {string[]} young
 * @returns {Map<number, number>[] | null}
 */
function traceOf(old, young) {
  const trace = /** @type {Map<number, number>[]} */ ([]);
  const reached = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(MOST_CHANGES, old.length + young.length); changes += 1) {
    trace.push(new Map(reached));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = comesFromAbove(reached, diagonal, changes) ? reached.get(diagonal + 1) ?? 0 : (reached.get(diagonal - 1) ?? 0) + 1;
      while (x < old.length && x - diagonal < young.length && old[x] === young[x - diagonal]) x += 1;
      reached.set(diagonal, x);
      if (x >= old.length && x - diagonal >= young.length) return trace;
    }
  }
  return null;
}

/**
 * @param {Map<number, number>} reached
 * @param {number} diagonal
 * @param {number} changes
 */
function comesFromAbove(reached, diagonal, changes) {
  return diagonal === -changes || (diagonal !== changes && (reached.get(diagonal - 1) ?? -1) < (reached.get(diagonal + 1) ?? -1));
}

/**
 * @param {string[]} old
 * @param {string[]} young
 * @param {Map<number, number>[]} trace
 */
function walkBack(old, young, trace) {
  const lines = /** @type {Line[]} */ ([]);
  let x = old.length;
  let y = young.length;
  for (let changes = trace.length - 1; changes >= 0; changes -= 1) {
    const reached = trace[changes];
    const diagonal = x - y;
    const isNew = comesFromAbove(reached, diagonal, changes);
    const fromX = changes ? reached.get(isNew ? diagonal + 1 : diagonal - 1) ?? 0 : 0;
    const fromY = changes ? fromX - (isNew ? diagonal + 1 : diagonal - 1) : 0;
    while (x > fromX && y > fromY) {
      lines.push(same(old[x - 1]));
      x -= 1;
      y -= 1;
    }
    if (!changes) break;
    if (isNew) lines.push(fresh(young[y - 1]));
    else lines.push(gone(old[x - 1]));
    [x, y] = [fromX, fromY];
  }
  return lines.reverse();
}
