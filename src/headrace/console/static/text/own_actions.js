/** Texts of what this tab has done. */

/** @typedef {keyof typeof what} ActionName */

export const what = {
  streamCreate: "Make a stream", streamUpdate: "Change a stream", streamDelete: "Delete a stream", streamPurge: "Purge a stream", streamBackup: "Back up a stream",
  streamRestore: "Restore a stream", stepDown: "Let another server lead", messageDelete: "Delete a message",
  consumerCreate: "Make a consumer", consumerUpdate: "Change a consumer", consumerDelete: "Delete a consumer", consumerPause: "Pause a consumer", consumerResume: "Resume a consumer",
  consumerReset: "Reset a consumer", consumerUnpin: "Unpin a client", messageTake: "Take a message", messageAnswer: "Answer a taken message",
  publish: "Publish a message", ask: "Ask",
  keySet: "Set a key", keyDelete: "Delete a key", keyPurge: "Purge a key",
  objectPut: "Store an object", objectDelete: "Delete an object", objectRename: "Rename or describe an object", objectLink: "Make a link",
  kick: "Close a connection", lameDuck: "Send lame duck", reload: "Reload a configuration",
  channelPurge: "Purge a channel", channelDelete: "Delete a channel", durableAdopt: "Adopt a durable",
};

export const text = {
  label: "What this tab had servers change",
  note: "The last 500. They are forgotten with the tab. Servers know them by the header Headrace-Console: JetStream's audit has it, and the server's log for what it does to connections and itself.",
  none: "This tab has changed nothing.",
  columns: { at: "Time", what: "What", about: "Of what", by: "As", state: "Outcome" },
  states: { sent: "under way", done: "done", failed: "failed" },
};
