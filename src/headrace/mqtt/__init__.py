"""MQTT in one account: its sessions, subscriptions, retained messages and wills, kept in streams.

Sans-I/O: the hub of an account is a service (`core.service`), which asks JetStream by requests and hears
answers; connections are seen by a Protocol. Never lives here: sockets and authentication (`server/mqtt`),
PUBLISH and deliveries (`engine/mqtt`), codecs (`protocol/mqtt`).

- `hub`: the service; who is connected, takeover, the way from CONNECT to a session
- `ports`: what this room sees of a connection and of the hub; `settings`: what configurations say
- `names`: subjects, streams, consumers, headers by name
- `steps`: work in several steps between which answers are awaited, without an event loop
- `requests`: requests to JetStream, with their answers and their timeouts; `streams`: the five streams
- `records`: a stored session as JSON; `session_store`: its loading, writing, end
- `kept_windows`: deliveries that wait for a client to come back
- `session_ends`, `due_times`: sessions and wills that are due later
- `session`: the session of one connection
- `subscriptions`: its filters; `consumers`: the consumers of filters
- `sharing`: consumers of shared subscriptions and their members
- `qos2_incoming`, `qos2_outgoing`: exactly once, from a client and to a client
- `retained`: retained messages and their index
- `message_headers`: header blocks of messages; `wills`: wills as messages; `sparkplug`: births and deaths
- `jail`: client identifiers that were taken over a moment ago

Source: nats-server 2.15.1 for streams, consumers, subjects and headers; OASIS MQTT 3.1.1 and 5.0.
"""
