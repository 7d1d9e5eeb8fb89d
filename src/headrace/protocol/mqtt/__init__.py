"""MQTT 3.1.1 and 5.0 as values: the packets that are rare, their properties and their codes.

Here live codecs of CONNECT, CONNACK, SUBSCRIBE, UNSUBSCRIBE, their answers, acknowledgements, DISCONNECT and
AUTH, with the texts and codes of what is malformed. Never lives here: PUBLISH and framing, which are compiled
(`engine/mqtt`), and what a server does about a packet (`headrace/mqtt`, `server/mqtt`).

- `reasons`: the codes of answers, and the error that a packet makes
- `fields`: strings, numbers and lengths as they stand in packets
- `properties`: what packets of 5.0 say beside their fields
- `topics`: the rules for topics, filters and client identifiers
- `packets`: CONNECT, SUBSCRIBE, acknowledgements and their like

Source: OASIS MQTT 3.1.1 and 5.0; texts and codes of 3.1.1 are those of nats-server 2.15.1.
"""
