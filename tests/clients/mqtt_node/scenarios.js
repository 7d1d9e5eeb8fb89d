// One scenario of MQTT.js against a server: node scenarios.js NAME URL LEVEL. Each line of stdout is a JSON value.
const mqtt = require("mqtt");

const [, , name, url, level] = process.argv;
const protocolVersion = Number(level);
const say = (value) => console.log(JSON.stringify(value));
let names = 0;

const connect = (options = {}) =>
  mqtt.connectAsync(url, { protocolVersion, reconnectPeriod: 0, clientId: `node${process.pid}x${names++}`, ...options });

// The next messages of a client, as lists of topic, payload, QoS and retain.
function messages(client, count) {
  return new Promise((resolve) => {
    const found = [];
    const take = (topic, payload, packet) => {
      found.push([topic, payload.toString(), packet.qos, packet.retain, packet.properties]);
      if (found.length === count) {
        client.removeListener("message", take);
        resolve(found);
      }
    };
    client.on("message", take);
  });
}

const scenarios = {
  async publish() {
    const [subscriber, publisher] = [await connect(), await connect()];
    for (const qos of [0, 1, 2]) {
      const granted = await subscriber.subscribeAsync(`node/${qos}/#`, { qos });
      say(granted.map((each) => each.qos));
      const heard = messages(subscriber, 50);
      for (let number = 0; number < 50; number++) await publisher.publishAsync(`node/${qos}/a`, `${number}`, { qos });
      const found = await heard;
      say([found.map((each) => Number(each[1])), [...new Set(found.map((each) => each[2]))]]);
    }
    await subscriber.endAsync();
    await publisher.endAsync();
  },

  async will() {
    const watcher = await connect();
    await watcher.subscribeAsync("node/will", { qos: 1 });
    const heard = messages(watcher, 1);
    const device = await connect({ will: { topic: "node/will", payload: Buffer.from("gone"), qos: 1, retain: false } });
    device.stream.destroy();
    say((await heard)[0].slice(0, 3));
    device.end(true);
    await watcher.endAsync();
  },

  async session() {
    const properties = protocolVersion === 5 ? { sessionExpiryInterval: 600 } : undefined;
    const options = { clientId: `kept${process.pid}`, clean: false, properties };
    const first = await connect(options);
    await first.subscribeAsync("node/session", { qos: 2 });
    await first.endAsync();
    const publisher = await connect();
    for (let number = 0; number < 20; number++) await publisher.publishAsync("node/session", `${number}`, { qos: 2 });
    await publisher.publishAsync("node/retained", "stays", { qos: 1, retain: true });
    const again = mqtt.connect(url, { protocolVersion, reconnectPeriod: 0, ...options });
    const heard = messages(again, 20);
    const connack = await new Promise((resolve) => again.once("connect", resolve));
    say(connack.sessionPresent);
    say((await heard).map((each) => Number(each[1])));
    const retained = messages(again, 1);
    await again.subscribeAsync("node/retained");
    say((await retained)[0].slice(0, 4));
    await again.unsubscribeAsync("node/session");
    await again.endAsync();
    await publisher.endAsync();
  },

  async properties() {
    const client = await connect();
    await client.subscribeAsync("node/properties", { qos: 1, properties: { subscriptionIdentifier: 9 } });
    const heard = messages(client, 1);
    const properties = {
      contentType: "text/plain",
      responseTopic: "node/answers",
      correlationData: Buffer.from([0, 255]),
      userProperties: { place: ["attic", "cellar"] },
    };
    await client.publishAsync("node/properties", "x", { qos: 1, properties });
    const told = (await heard)[0][4];
    say([told.contentType, told.responseTopic, [...told.correlationData], told.userProperties, told.subscriptionIdentifier]);
    await client.endAsync();
  },
};

scenarios[name]().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
