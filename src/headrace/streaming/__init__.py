"""NATS Streaming (STAN) on the message log, as a service inside the server.

A machine: deliveries and time in, publications out. No socket, no thread, no file of its own.

In reading order:

- `service` has channels for a time, or stands by; `tenure` is such a time and puts the parts together.
- `limits` and `naming` are its rules, `context` is what the parts share, `error_texts` and `error_responses`
  are its error texts.
- Requests: `clients`, `channels`, `publishing`, `subscribing`, `administration`, `requests`.
- Messages on their way: `subscription`, `delivery`, `redelivery`.
- Stored messages: `spans`, `stored`, `replaying`; `shared_stream` (a channel that is a JetStream stream too).
- State: `state`, `journal`, `recovery`. More than one server: `partitions`, `standby`, `beats`, `modes`.
- Monitoring: `snapshot`. `importing` takes over stores of nats-streaming-server.

Source: streaming protocol specification.
"""
