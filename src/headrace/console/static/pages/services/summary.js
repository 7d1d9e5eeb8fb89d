/** What instances say, put together: a service of all its instances, an endpoint of all instances that have it. */

/** @typedef {import("../../nats/services.js").InstanceInfo} InstanceInfo */
/** @typedef {import("../../nats/services.js").InstanceStats} InstanceStats */

/**
 * @typedef {object} Figures
 * @property {number} requests
 * @property {number} errors
 * @property {number} busyNs the time of all requests together
 */

/** @typedef {Figures & { name: string, versions: string[], instances: number, endpoints: number, description: string }} Service */
/** @typedef {Figures & { name: string, subject: string, queue: string, lastError: string }} Endpoint */
/** @typedef {Figures & { id: string, version: string, started: string, endpoints: Endpoint[] }} Instance */

/**
 * The mean time of a request in seconds; null where there was none.
 * @param {Figures} figures
 */
export function mean({ requests, busyNs }) {
  return requests ? busyNs / requests / 1e9 : null;
}

/**
 * All services, by their names.
 *
 * @param {InstanceInfo[]} infos
 * @param {InstanceStats[]} stats
 * @returns {Service[]}
 */
export function services(infos, stats) {
  /** @type {Map<string, { service: Service, ids: Set<string>, subjects: Set<string>, versions: Set<string> }>} */
  const found = new Map();
  const of = (/** @type {string} */ name) => {
    let one = found.get(name);
    if (!one) found.set(name, (one = { service: { name, versions: [], instances: 0, endpoints: 0, description: "", requests: 0, errors: 0, busyNs: 0 }, ids: new Set(), subjects: new Set(), versions: new Set() }));
    return one;
  };
  for (const info of infos) {
    const one = of(info.name);
    one.ids.add(info.id);
    one.versions.add(info.version);
    one.service.description ||= info.description ?? "";
    for (const endpoint of info.endpoints) one.subjects.add(endpoint.subject);
  }
  for (const each of stats) {
    const one = of(each.name);
    one.ids.add(each.id);
    one.versions.add(each.version);
    for (const endpoint of each.endpoints) addTo(one.service, endpoint);
  }
  return [...found.values()].map(({ service, ids, subjects, versions }) => ({ ...service, instances: ids.size, endpoints: subjects.size, versions: [...versions].filter(Boolean).sort() }));
}

/**
 * The endpoints of one service, by name and subject.
 *
 * @param {InstanceInfo[]} infos
 * @param {InstanceStats[]} stats
 * @returns {Endpoint[]}
 */
export function endpoints(infos, stats) {
  /** @type {Map<string, Endpoint>} */
  const found = new Map();
  const of = (/** @type {{ name: string, subject: string, queue_group?: string }} */ { name, subject, queue_group = "" }) => {
    const key = `${name} ${subject}`;
    let one = found.get(key);
    if (!one) found.set(key, (one = { name, subject, queue: queue_group, lastError: "", requests: 0, errors: 0, busyNs: 0 }));
    return one;
  };
  for (const info of infos) for (const endpoint of info.endpoints) of(endpoint);
  for (const each of stats) {
    for (const endpoint of each.endpoints) {
      const one = of(endpoint);
      addTo(one, endpoint);
      one.lastError ||= endpoint.last_error ?? "";
    }
  }
  return [...found.values()];
}

/**
 * @param {InstanceInfo[]} infos
 * @param {InstanceStats[]} stats
 * @returns {Instance[]}
 */
export function instances(infos, stats) {
  /** @type {Map<string, Instance>} */
  const found = new Map();
  const of = (/** @type {{ id: string, version: string }} */ { id, version }) => {
    let one = found.get(id);
    if (!one) found.set(id, (one = { id, version, started: "", endpoints: [], requests: 0, errors: 0, busyNs: 0 }));
    return one;
  };
  for (const info of infos) of(info);
  for (const each of stats) {
    const one = of(each);
    one.started = each.started ?? "";
    for (const endpoint of each.endpoints) addTo(one, endpoint);
  }
  return [...found.values()];
}

/**
 * @param {Figures} sum
 * @param {import("../../nats/services.js").EndpointStats} endpoint
 */
function addTo(sum, endpoint) {
  sum.requests += endpoint.num_requests;
  sum.errors += endpoint.num_errors;
  sum.busyNs += endpoint.processing_time;
}
