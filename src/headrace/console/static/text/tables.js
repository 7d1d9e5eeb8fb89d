/** Texts of the Tables page. */

export const text = {
  sub: "Parquet tables that servers make of streams and channels while they serve",
  absent: "No server archives into tables here.",
  absentNext: "Headrace does with a section archive { } in jetstream or streaming; headrace tables makes tables from outside. nats-server has neither.",
  none: "The server archives, but has no table yet.",
  noneNext: "The first round makes them: it begins some minutes after the start, and each has its own interval.",
  table: "Tables",
  kinds: /** @type {Record<string, string>} */ ({ stream: "Stream", channel: "Channel" }),
  columns: {
    name: "Name", kind: "Of a", account: "Account", state: "State", last: "Last sequence", archived: "Archived up to", behind: "Waiting", files: "Files", bytes: "Size", run: "Last round", verified: "Verified",
    error: "Last error",
  },
  states: { good: "all is in the table", behind: "behind", failed: "failed", empty: "nothing to archive" },
  figures: { tables: "Tables", failed: "Failed", behind: "Messages waiting", bytes: "Size", files: "Files" },
  never: "never",
};
