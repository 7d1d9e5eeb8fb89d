/** The backup of a stream: its snapshot comes over the connection, and is saved as one file. */

import { backupFile } from "../../data/backup_file.js";
import { saveFile } from "../../ui/download.js";
import { h, replace } from "../../dom/element.js";
import { bytes } from "../../format.js";
import { takeSnapshot } from "../../nats/snapshots.js";
import { text } from "../../text/stream_forms.js";
import { button, onCommandLine, shellWord } from "../../ui/blocks.js";
import { openDialog, showProblem } from "../../ui/dialog.js";
import { checkbox } from "../../ui/fields.js";

/** A larger stream is no matter for a browser, which holds all of it: 2 GiB. */
const MOST = 2 * 1_073_741_824;

/**
 * @param {import("../index.js").Place} place
 * @param {import("../../nats/link.js").Link} link
 * @param {import("../../nats/jetstream.js").StreamInfo} info
 */
export function openBackup(place, link, info) {
  const { name } = info.config;
  const stop = new AbortController();
  const consumers = checkbox(text.backupConsumers, { checked: true });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const bar = progressBar();
  const isLarge = info.state.bytes > MOST;
  const footer = h("footer");
  const begin = async () => {
    problem.hidden = true;
    replace(footer, button(text.stop, () => dialog.close()));
    try {
      const taken = await takeSnapshot(link, name, { signal: stop.signal, consumers: consumers.control.checked, most: MOST, progress: bar.show });
      if (!taken) return;
      const file = backupFile(taken.config, taken.state, taken.parts);
      bar.say(text.backupDone(bytes(file.size)));
      replace(footer, button(text.backupSave, () => saveFile(`${name}.backup.tar`, [file]), { kind: "main", icon: "download" }));
      saveFile(`${name}.backup.tar`, [file]);
    } catch (error) {
      showProblem(problem, error);
      replace(footer, go());
    }
  };
  const go = () => button(text.backupGo, () => void begin(), { kind: "main", disabled: isLarge });
  replace(footer, go());
  const dialog = openDialog(
    text.backupTitle(name),
    { signal: place.signal, closed: () => stop.abort() },
    h("p", { class: "muted" }, text.backupNote),
    isLarge && h("p", { class: "status warn" }, text.backupLarge(bytes(MOST))),
    consumers.element,
    bar.element,
    problem,
    footer,
    onCommandLine(`headrace stream backup ${shellWord(name)} ${shellWord(`backups/${name}`)}`),
  );
}

/** How far something is: a bar and words. */
export function progressBar() {
  const bar = h("progress", { class: "progress", max: "1", value: "0", hidden: true });
  const words = h("p", { class: "muted small", role: "status" });
  return {
    element: h("div", {}, bar, words),
    show: (/** @type {number} */ done, /** @type {number} */ total) => {
      bar.hidden = false;
      bar.value = total ? done / total : 0;
      words.textContent = text.progress(bytes(done), bytes(total));
    },
    say: (/** @type {string} */ said) => {
      bar.hidden = true;
      words.textContent = said;
    },
  };
}
