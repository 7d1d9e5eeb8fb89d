/** Texts of the Tables page. */

export const text = {
  sub: "Parquet tables that servers make of streams and channels while they serve",
  absent: "No server archives into tables.",
  absentNext: "Headrace does with a section archive { } in jetstream or streaming; headrace tables makes tables from outside. nats-server has neither.",
  none: "The server archives, but has no table yet.",
  noneNext: "The first round makes them: it begins some minutes after the start, and each has its own interval.",
  table: "Tables",
  services: /** @type {Record<string, string>} */ ({ jetstream: "Stream", streaming: "Channel" }),
  kinds: /** @type {Record<string, string>} */ ({ messages: "all messages", latest: "latest values", history: "histories" }),
  columns: {
    name: "Name", service: "Of a", account: "Account", kind: "Rows are", state: "State", last: "Last sequence", archived: "Archived up to", behind: "Waiting", rows: "Rows", files: "Files", bytes: "Size",
    run: "Last round", error: "Last error", to: "Place", server: "Server",
  },
  states: { good: "all is in the table", behind: "behind", failed: "failed", gone: "its stream is gone, or not known yet", waiting: "its first round is to come" },
  figures: { tables: "Tables", failed: "Failed", behind: "Messages waiting", bytes: "Size", files: "Files" },
};
