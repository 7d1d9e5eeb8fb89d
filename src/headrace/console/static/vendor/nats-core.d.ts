/** The types of nats-core.js, for `tsc` only: the package's own (requirements/console). */
export * from "@nats-io/nats-core";
