// One scenario per run: node scenarios.js NAME URL. Says what happened as lines of JSON on stdout; what should
// have happened is known to test_js_node.py alone.
'use strict'

const { connect } = require('@nats-io/transport-node')
const { jetstream, jetstreamManager, AckPolicy, DeliverPolicy } = require('@nats-io/jetstream')
const { Kvm } = require('@nats-io/kv')
const { Objm } = require('@nats-io/obj')

const [name, url] = process.argv.slice(2)
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')
const bytes = (text) => new TextEncoder().encode(text)

async function take (iterator, count) {
  const found = []
  for await (const item of iterator) {
    found.push(item)
    if (found.length === count) break
  }
  return found
}

const scenarios = {
  async publish (nc, js, manager) {
    await manager.streams.add({ name: 'publish', subjects: ['publish.>'] })
    const first = await js.publish('publish.a', bytes('one'), { msgID: 'x' })
    const again = await js.publish('publish.a', bytes('one'), { msgID: 'x' })
    say([first.seq, first.duplicate, again.seq, again.duplicate])
    await js.publish('publish.a', bytes('two'), { expect: { lastSequence: 9 } }).catch((e) => say([e.code, e.message]))
    await js.publish('nowhere', bytes('')).catch((e) => say(e.message))
    const stored = await manager.streams.getMessage('publish', { last_by_subj: 'publish.a' })
    say([stored.seq, stored.string(), stored.header.get('Nats-Msg-Id')])
    const info = await manager.streams.info('publish', { subjects_filter: '>' })
    say([info.state.messages, info.state.subjects])
  },

  async fetch (nc, js, manager) {
    await manager.streams.add({ name: 'fetch', subjects: ['fetch.>'] })
    for (let n = 1; n <= 10; n++) await js.publish('fetch.a', bytes(`${n}`))
    await manager.consumers.add('fetch', { durable_name: 'c', ack_policy: AckPolicy.Explicit })
    const consumer = await js.consumers.get('fetch', 'c')
    const messages = await take(await consumer.fetch({ max_messages: 4, expires: 2000 }), 4)
    say(messages.map((m) => m.string()))
    for (const message of messages) say(await message.ackAck())
    const one = await consumer.next({ expires: 2000 })
    one.nak()
    await nc.flush()
    await consumer.info() // the Go server takes acknowledgements in when it can
    const same = await consumer.next({ expires: 2000 })
    say([one.seq, same.seq, same.info.deliveryCount])
    same.term('enough')
    const rest = await take(await consumer.consume({ max_messages: 2 }), 5)
    rest.forEach((m) => m.ack())
    say(rest.map((m) => m.seq))
    await nc.flush()
    const info = await consumer.info()
    say([info.num_pending, info.delivered.stream_seq])
  },

  async ordered (nc, js, manager) {
    await manager.streams.add({ name: 'ordered', subjects: ['ordered.>'] })
    for (let n = 1; n <= 500; n++) js.publish(`ordered.${n % 3}`, bytes(`${n}`))
    await nc.flush()
    while ((await manager.streams.info('ordered')).state.messages < 500);
    const all = await js.consumers.get('ordered')
    const found = await take(await all.consume(), 500)
    say(found.every((m, at) => m.seq === at + 1))
    const some = await js.consumers.get('ordered', { filter_subjects: ['ordered.1'], deliver_policy: DeliverPolicy.All })
    say((await take(await some.consume(), 167)).at(-1).string())
  },

  async keyValue (nc) {
    const kv = await new Kvm(nc).create('bucket', { history: 5 })
    say([await kv.create('a', 'one'), await kv.put('b', 'two'), await kv.update('a', 'three', 1)])
    await kv.create('a', 'four').catch((e) => say(e.message))
    await kv.update('a', 'four', 1).catch((e) => say(e.message))
    await kv.delete('b')
    say([(await kv.get('a')).string(), (await kv.get('b')).operation, await kv.get('none')])
    const keys = []
    for await (const key of await kv.keys()) keys.push(key)
    say(keys)
    const history = []
    for await (const entry of await kv.history()) history.push([entry.key, entry.operation, entry.revision, entry.delta])
    say(history)
    const watch = await kv.watch({ key: 'c.*' })
    await kv.put('c.x', 'seen')
    const [entry] = await take(watch, 1)
    say([entry.key, entry.string()])
    await kv.purge('a')
    const status = await kv.status()
    say([status.bucket, status.history, status.values])
    say(await kv.destroy())
  },

  async objects (nc) {
    const store = await new Objm(nc).create('objects')
    const large = new Uint8Array(1_000_000).map((_, at) => at % 251)
    const info = await store.putBlob({ name: 'large', description: 'd' }, large)
    say([info.size, info.chunks])
    const found = await store.getBlob('large')
    say(Buffer.compare(Buffer.from(found), Buffer.from(large)))
    await store.putBlob({ name: 'small', options: { max_chunk_size: 10 } }, bytes('x'.repeat(95)))
    await store.link('link', await store.info('small'))
    say((await store.getBlob('link')).length)
    await store.delete('large')
    say([await store.getBlob('large'), (await store.list()).map((i) => [i.name, Boolean(i.deleted)]).sort()])
    const status = await store.status()
    say([status.bucket, status.sealed])
    say(await store.destroy())
  }
}

async function main () {
  const nc = await connect({ servers: url })
  await scenarios[name](nc, jetstream(nc), await jetstreamManager(nc))
  await nc.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
