// One scenario per run: node scenarios.js NAME URL CLUSTER. Says what happened as lines of JSON on stdout;
// what should have happened is known to test_stan_node.py alone. A line on stdin lets a scenario go on.
'use strict'

const events = require('events')
const readline = require('readline')
const stan = require('node-nats-streaming')

const [name, url, cluster] = process.argv.slice(2)
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')
const input = readline.createInterface({ input: process.stdin })
const goOn = () => events.once(input, 'line')

async function connect (id, options = {}) {
  const client = stan.connect(cluster, id, { url, reconnectTimeWait: 20, ...options })
  await events.once(client, 'connect') // rejects when 'error' comes before
  return client
}

function publish (client, channel, data) {
  return new Promise((resolve, reject) => {
    client.publish(channel, data, (error, guid) => error ? reject(new Error(error)) : resolve(guid))
  })
}

// What arrives is in `messages`; `until(n)` resolves as soon as there are n of them.
async function subscribe (client, channel, group, set = (options) => options) {
  const subscription = client.subscribe(channel, group, set(client.subscriptionOptions()))
  subscription.messages = []
  subscription.until = async (count) => {
    while (subscription.messages.length < count) await events.once(subscription, 'message')
    return subscription.messages
  }
  subscription.prependListener('message', (message) => subscription.messages.push(message))
  await events.once(subscription, 'ready')
  return subscription
}

async function close (target, event) {
  target.close()
  await events.once(target, event)
}

const told = (message) => [message.getSequence(), message.getData(), message.isRedelivered()]

const scenarios = {
  async publish () {
    const client = await connect('publisher')
    const guids = []
    for (let n = 0; n < 5; n++) guids.push(await publish(client, 'node.publish', `message ${n}`))
    say(new Set(guids).size)
    await publish(client, 'node/bad', 'x').catch((error) => say(error.message))
    await close(client, 'close')
  },

  async subscribe () {
    const client = await connect('subscriber')
    for (let n = 1; n <= 5; n++) await publish(client, 'node.subscribe', `message ${n}`)
    const starts = [
      (options) => options.setDeliverAllAvailable(),
      (options) => options.setStartWithLastReceived(),
      (options) => options.setStartAtSequence(3),
      (options) => options.setStartAtTimeDelta(3600000)
    ]
    for (const [place, start] of starts.entries()) {
      const subscription = await subscribe(client, 'node.subscribe', '', start)
      const messages = await subscription.until([5, 1, 3, 5][place])
      say(messages.map(told))
      subscription.unsubscribe()
      await events.once(subscription, 'unsubscribed')
    }
    const fresh = await subscribe(client, 'node.subscribe')
    await publish(client, 'node.subscribe', 'message 6')
    const [message] = await fresh.until(1)
    say([...told(message), Math.abs(Date.now() - message.getTimestamp()) < 60000])
    await close(client, 'close')
  },

  async durable () {
    let client = await connect('durable')
    const durable = (options) => options.setDurableName('d').setDeliverAllAvailable()
    for (const data of ['a', 'b']) await publish(client, 'node.durable', data)
    let subscription = await subscribe(client, 'node.durable', '', durable)
    say((await subscription.until(2)).map(told))
    await close(subscription, 'closed')
    await publish(client, 'node.durable', 'c')
    await close(client, 'close')

    client = await connect('durable')
    subscription = await subscribe(client, 'node.durable', '', durable)
    say((await subscription.until(1)).map(told))
    const second = client.subscribe('node.durable', '', durable(client.subscriptionOptions()))
    say((await events.once(second, 'error'))[0].message)
    subscription.unsubscribe()
    await events.once(subscription, 'unsubscribed')

    subscription = await subscribe(client, 'node.durable', '', durable)
    say((await subscription.until(3)).map(told))
    await close(client, 'close')
  },

  async queue () {
    const clients = [await connect('queue-1'), await connect('queue-2')]
    const members = []
    for (const client of clients) members.push(await subscribe(client, 'node.queue', 'workers'))
    const all = new Promise((resolve) => {
      let count = 0
      for (const member of members) member.on('message', () => { if (++count === 40) resolve() })
    })
    await Promise.all(Array.from({ length: 40 }, (_, n) => publish(clients[0], 'node.queue', `${n}`)))
    await all
    const got = members.map((member) => member.messages.map((message) => message.getSequence()))
    say(got.flat().sort((a, b) => a - b))
    say(got.map((sequences) => sequences.length > 0))

    await close(clients[1], 'close') // the other takes over
    await publish(clients[0], 'node.queue', 'last')
    const before = got[0].length
    say((await members[0].until(before + 1)).slice(before).map(told))
    await close(clients[0], 'close')
  },

  async redelivery () {
    const client = await connect('redelivery')
    const manual = (options) => options.setManualAckMode(true).setAckWait(1000).setMaxInFlight(2)
    const subscription = await subscribe(client, 'node.redelivery', '', manual)
    for (const data of ['a', 'b', 'c']) await publish(client, 'node.redelivery', data)
    const messages = await subscription.until(4) // two, no more fit, then the same two once more
    say(messages.slice(0, 4).map((message) => [...told(message), message.getRedeliveryCount()]))
    for (const message of messages.slice(2, 4)) message.ack()
    say(told((await subscription.until(5))[4]))
    await close(client, 'close')
  },

  async reconnect () {
    const client = await connect('reconnect')
    const subscription = await subscribe(client, 'node.reconnect')
    await publish(client, 'node.reconnect', 'before')
    say((await subscription.until(1)).map(told))
    const back = events.once(client, 'reconnect')
    await goOn()
    await back
    await publish(client, 'node.reconnect', 'after')
    // The first comes again when the server's end was quicker than its acknowledgement.
    const isNew = (message) => message.getData() === 'after'
    while (!subscription.messages.some(isNew)) await events.once(subscription, 'message')
    say(told(subscription.messages.find(isNew)))
    await close(client, 'close')
  },

  async replaced () {
    const old = await connect('same', { stanPingInterval: 1000 })
    await connect('same').catch((error) => say(error.message || error))
    old.nc.unsubscribe(old.hbSubscription) // it no longer shows that it lives
    const heir = await connect('same')
    say((await events.once(old, 'connection_lost'))[0])
    await publish(heir, 'node.replaced', 'x')
    await close(heir, 'close')
  }
}

scenarios[name]().then(
  () => process.exit(0),
  (error) => {
    console.error(error)
    process.exit(1)
  }
)
