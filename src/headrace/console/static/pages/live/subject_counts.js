/** Messages counted by their subjects, as a tree of tokens; so many subjects are kept apart, the rest is one number. */

/** So many tokens are kept; a subject with a new one beyond that is counted where its known tokens end. */
export const MOST_TOKENS = 20_000;

/** A token of subjects, with all messages of subjects that begin so. */
export class SubjectNode {
  /**
   * @param {string} token
   * @param {SubjectNode | null} parent
   */
  constructor(token, parent) {
    this.token = token;
    this.parent = parent;
    this.subject = /** @type {string} */ (parent?.parent ? `${parent.subject}.${token}` : token);
  }

  count = 0;
  bytes = 0;
  /** Messages of subjects below that are not kept apart. */
  others = 0;
  /** @type {Map<string, SubjectNode>} */
  children = new Map();
}

export class SubjectCounts {
  root = new SubjectNode("", null);
  #tokens = 0;
  /** The last token of each whole subject, so that one that comes again is not taken apart. @type {Map<string, SubjectNode>} */
  #known = new Map();
  #most;

  /** @param {number} [most] */
  constructor(most = MOST_TOKENS) {
    this.#most = most;
  }

  /**
   * @param {string} subject
   * @param {number} bytes
   */
  add(subject, bytes) {
    /** @type {SubjectNode | null} */
    let node = this.#known.get(subject) ?? this.#find(subject);
    for (; node; node = node.parent) {
      node.count += 1;
      node.bytes += bytes;
    }
  }

  /** @param {string} subject */
  #find(subject) {
    let node = this.root;
    for (const token of subject.split(".")) {
      let next = node.children.get(token);
      if (!next) {
        if (this.#tokens >= this.#most) {
          node.others += 1;
          return node;
        }
        this.#tokens += 1;
        next = new SubjectNode(token, node);
        node.children.set(token, next);
      }
      node = next;
    }
    this.#known.set(subject, node);
    return node;
  }
}
