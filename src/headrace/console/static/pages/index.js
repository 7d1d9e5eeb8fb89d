/** The pages, in the order of the bar, and what each needs. A page is loaded when it is first shown. */

/**
 * @typedef {object} Place
 * @property {HTMLElement} host where the page draws itself
 * @property {string[]} path the parts of the address behind the page's name
 * @property {URLSearchParams} query
 * @property {import("../app.js").App} app
 * @property {AbortSignal} signal aborted when the page is left
 * @property {(href: string) => void} go
 */

/** @typedef {{ show: (place: Place) => void | Promise<void> }} Page */

/**
 * @typedef {object} Entry
 * @property {keyof typeof import("../text/common.js").text.page} name
 * @property {"watch" | "data" | "servers"} section
 * @property {import("../ui/icons.js").Icon} icon
 * @property {"account" | "operator" | "either"} needs which login
 * @property {() => Promise<Page>} load
 */

/** @type {Entry[]} */
export const PAGES = [
  { name: "overview", section: "watch", icon: "overview", needs: "either", load: () => import("./overview.js") },
  { name: "live", section: "watch", icon: "live", needs: "either", load: () => import("./live.js") },
  { name: "alerts", section: "watch", icon: "alerts", needs: "either", load: () => import("./alerts.js") },
  { name: "streams", section: "data", icon: "streams", needs: "account", load: () => import("./streams.js") },
  { name: "consumers", section: "data", icon: "consumers", needs: "account", load: () => import("./consumers.js") },
  { name: "keyvalue", section: "data", icon: "keyvalue", needs: "account", load: () => import("./keyvalue.js") },
  { name: "objects", section: "data", icon: "objects", needs: "account", load: () => import("./objects.js") },
  { name: "services", section: "data", icon: "services", needs: "account", load: () => import("./services.js") },
  { name: "streaming", section: "data", icon: "streaming", needs: "account", load: () => import("./streaming.js") },
  { name: "pipelines", section: "data", icon: "pipelines", needs: "account", load: () => import("./pipelines.js") },
  { name: "tables", section: "data", icon: "tables", needs: "operator", load: () => import("./tables.js") },
  { name: "connections", section: "servers", icon: "connections", needs: "either", load: () => import("./connections.js") },
  { name: "accounts", section: "servers", icon: "accounts", needs: "operator", load: () => import("./accounts.js") },
  { name: "map", section: "servers", icon: "map", needs: "operator", load: () => import("./map.js") },
  { name: "server", section: "servers", icon: "server", needs: "operator", load: () => import("./server.js") },
];
