"""Consumers: deliveries, acknowledgements, redeliveries, and the configurations that are valid.

- `consumer` puts the parts together; `port` is what they see of it and of each other. `rules` judge a
  configuration, `extensions` are options of our own in its metadata, `deliver_policy` finds the first
  sequence.
- `ack_state` has the numbers, `pending_counter` how many messages are still to come, `info` the ConsumerInfo.
- Sending: `serving`, by one of two strategies: to the requests of a `pull_delivery`, which wait in `pulls`
  (with `priority_groups`), or to the subject of a `push_delivery`; at its `pace`. `keyed_order` bounds it per
  key, `redelivery` says what is sent again and when, `dead_letters` takes what is given up.
- `acknowledger` applies acknowledgements; `inactivity` removes unused consumers; `advisories` tell about it.

Never here: messages on their way into a stream, or subscriptions.
"""
