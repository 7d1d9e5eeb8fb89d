/** A stream made of the files of a backup, under its name or another one. */

import { to } from "../../app.js";
import { readBackup } from "../../data/backup_file.js";
import { h, replace } from "../../dom/element.js";
import { bytes, count } from "../../format.js";
import { restoreSnapshot } from "../../nats/snapshots.js";
import { text } from "../../text/stream_forms.js";
import { button, onCommandLine } from "../../ui/blocks.js";
import { openDialog, showProblem } from "../../ui/dialog.js";
import { field, input, textarea } from "../../ui/fields.js";
import { say } from "../../ui/toasts.js";
import { progressBar } from "./backup.js";
import { subjectsOf, wrongName, wrongSubjects } from "./values.js";

/** @typedef {import("../../data/backup_file.js").Backup} Backup */

/** @param {import("../index.js").Place} place */
export function openRestore(place) {
  const link = /** @type {import("../../nats/link.js").Link} */ (place.app.account);
  const stop = new AbortController();
  /** @type {Backup | null} */
  let backup = null;
  const files = field(text.restoreFiles, h("input", { type: "file", multiple: true, class: "input" }));
  const name = field(text.restoreName, input({ class: "mono" }), { hint: text.restoreNameHint, check: wrongName });
  const subjects = field(text.restoreSubjects, textarea({ class: "mono", rows: 2 }), { hint: text.restoreSubjectsHint, check: wrongSubjects });
  const rest = h("div", { class: "form", hidden: true }, name.element, subjects.element);
  const bar = progressBar();
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  files.control.addEventListener("change", async () => {
    backup = null;
    replace(footer, go());
    backup = await readBackup([.../** @type {FileList} */ (files.control.files)]);
    rest.hidden = !backup;
    replace(footer, go());
    if (!backup) return files.complain(text.restoreWrong);
    name.control.value = backup.config.name;
    subjects.control.value = (backup.config.subjects ?? []).join("\n");
    subjects.element.hidden = !backup.config.subjects;
    bar.say(text.restoreIs(backup.config.name, count(backup.state.messages), bytes(backup.data.size)));
    return undefined;
  });
  const footer = h("footer");
  const begin = async () => {
    if (!backup) return undefined;
    if (!name.isRight() || !subjects.isRight()) return undefined;
    problem.hidden = true;
    const config = { ...backup.config, name: name.value().trim(), ...(backup.config.subjects ? { subjects: subjectsOf(subjects.value()) } : {}) };
    replace(footer, button(text.stop, () => dialog.close()));
    try {
      const info = await restoreSnapshot(link, config, backup.state, backup.data, { signal: stop.signal, progress: bar.show });
      if (!info) return undefined;
      dialog.close();
      const were = backup.state.messages;
      say(info.state.messages === were ? text.restored(config.name, count(were)) : text.restoreDiffers(count(info.state.messages), count(were)));
      place.go(to("streams", [config.name]));
    } catch (error) {
      if (stop.signal.aborted) return undefined;
      showProblem(problem, error);
      replace(footer, go());
    }
    return undefined;
  };
  const go = () => button(text.restoreGo, () => void begin(), { kind: "main", disabled: backup ? "" : text.restoreNone });
  replace(footer, go());
  const dialog = openDialog(
    text.restoreTitle,
    { signal: place.signal, closed: () => stop.abort() },
    h("p", { class: "muted" }, text.restoreNote),
    files.element,
    rest,
    bar.element,
    problem,
    footer,
    onCommandLine("headrace stream restore backups/ORDERS"),
  );
}
