/** Texts of the Pipelines page. */

export const text = {
  sub: (/** @type {string} */ subject) => `What pipelines report on ${subject}, every 5 seconds`,
  noSubject: "The console does not know where pipelines report.",
  noSubjectNext: "Run them with --report SUBJECT, and name the subject here, or for everybody in the configuration: console { pipelines: SUBJECT }.",
  subject: "Subject of the reports",
  subjectWrong: "A subject has no spaces.",
  listen: "Listen",
  waiting: "No report has come yet.",
  waitingNext: "A pipeline tells of itself every 5 seconds while it runs. Start one:",
  strange: (/** @type {string} */ count) => `${count} messages on this subject are no reports of pipelines.`,
  table: "Queries",
  running: "Running",
  failed: "Failed",
  behind: "Behind",
  rate: "Rows",
  columns: {
    pipeline: "Pipeline", query: "Query", state: "State", lag: "Lag", rate: "Rows a second", rows: "Rows read", written: "Rows written", batches: "Batches", batch: "Last batch", failures: "Failures",
    seen: "Last report",
  },
  states: /** @type {Record<string, string>} */ ({ running: "running", starting: "starting", ended: "ended", failed: "failed", silent: "silent" }),
  lagChart: "Messages that wait",
  rateChart: "Rows a second",
  failure: "Last error",
  noLag: "not told",
  other: "Another subject",
};
