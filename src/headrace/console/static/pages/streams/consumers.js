/** The consumers of one stream, as a part of its page. */

import { h, replace } from "../../dom/element.js";
import { onCommandLine, shellWord } from "../../ui/blocks.js";
import { ConsumerTable } from "../consumers/table.js";

/**
 * @param {import("./one.js").StreamPlace} stream
 * @returns {import("./one.js").Part}
 */
export function showConsumers({ place, link, name, info, host, reload }) {
  const table = new ConsumerTable(place, link, { stream: info.config, changed: reload });
  replace(host, h("div", { class: "card" }, table.element), onCommandLine(`headrace consumer report ${shellWord(name)} --sort lag`));
  table.follow(() => [name]);
  return { update: (now) => table.know(now.config) };
}
