/** Texts of the map. */

export const text = {
  sub: "Clusters are boxes, servers are discs with their number of clients, leaf nodes are diamonds. A server leads to its page.",
  card: "Drawn",
  table: "The same as a table",
  drawing: (/** @type {number} */ servers, /** @type {number} */ links) => `A map of ${servers === 1 ? "1 server" : `${servers} servers`} and ${links === 1 ? "1 link" : `${links} links`}. The table below says the same.`,
  noCluster: "without a cluster",
  noServerAnswers: "no server of it answers",
  clients: (/** @type {number} */ count) => (count === 1 ? "1 client" : `${count} clients`),
  silent: (/** @type {string} */ name) => `${name} does not answer`,
  moreLeafs: (/** @type {number} */ count) => `${count} more`,
  unreachableHub: "hub not reached",
  kinds: { route: "Route", gateway: "Gateway", leaf: "Leaf node" },
  states: { up: "connected", broken: "broken" },
  distance: { near: "near: under 5 ms", far: "far: 5 to 50 ms", distant: "distant: over 50 ms", broken: "broken", unknown: "RTT not known" },
  legend: "The wider, the more messages a second. In a cluster of more than 12 servers only broken and distant routes are drawn.",
  why: /** @type {Record<string, (note: string) => string>} */ ({
    noRoute: () => "no connection between the two",
    noGateway: (server) => `${server} has no connection to it`,
    noHub: (count) => (count === "1" ? "a remote of its configuration is not connected" : `${count} remotes of its configuration are not connected`),
  }),
  columns: { kind: "Link", from: "From", to: "To", state: "State", rtt: "RTT", msgs: "Messages", bytes: "Bytes", connections: "Connections", pending: "Pending", note: "Account" },
  alone: "This server is alone.",
  aloneNext: "A cluster { } block joins it with others, gateways join clusters, and leafnodes join servers elsewhere.",
  summary: (/** @type {number} */ servers, /** @type {number} */ clusters, /** @type {number} */ links, /** @type {number} */ broken) =>
    `${servers === 1 ? "1 server" : `${servers} servers`}${clusters === 0 ? "" : ` in ${clusters === 1 ? "1 cluster" : `${clusters} clusters`}`}. ${links === 0 ? "There are no links." : broken === 0 ? "All links are up." : broken === 1 ? "1 link is broken." : `${broken} links are broken.`}`,
  silentServers: (/** @type {number} */ count) => (count === 1 ? "1 server does not answer." : `${count} servers do not answer.`),
};
