/**
 * What can go wrong with a request, each as a class of its own, so that a page can say what a person may do next.
 * The texts for people are in text/problems.js.
 */

/** The user of this connection may not publish or subscribe there. */
export class NoRight extends Error {
  /**
   * @param {string} subject
   * @param {string} operation "publish" or "subscription"
   */
  constructor(subject, operation) {
    super(`Permissions Violation for ${operation === "publish" ? "Publish" : "Subscription"} to "${subject}"`);
    this.subject = subject;
    this.operation = operation;
  }
}

/** Nobody listens to the subject of a request. */
export class NobodyThere extends Error {
  /** @param {string} subject */
  constructor(subject) {
    super(`no responders on "${subject}"`);
    this.subject = subject;
  }
}

/** No answer came in time. */
export class NoAnswer extends Error {
  /**
   * @param {string} subject
   * @param {number} timeout milliseconds
   */
  constructor(subject, timeout) {
    super(`no answer on "${subject}" within ${timeout / 1000} s`);
    this.subject = subject;
  }
}

/** An API said no: its code, and its own words. */
export class Refused extends Error {
  /**
   * @param {number} code as in HTTP
   * @param {number} errorCode of JetStream, 0 where there is none
   * @param {string} description
   */
  constructor(code, errorCode, description) {
    super(description);
    this.code = code;
    this.errorCode = errorCode;
  }
}

/** There is no bucket of this name in the account. */
export class NoBucket extends Error {
  /** @param {string} bucket */
  constructor(bucket) {
    super(`no bucket "${bucket}"`);
    this.bucket = bucket;
  }
}

/** The connection is gone, or was never there. */
export class NotConnected extends Error {}

/** An answer that is no JSON, or not of the shape that was asked for. */
export class StrangeAnswer extends Error {}
