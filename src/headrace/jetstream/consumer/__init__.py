"""Consumers: deliveries, acknowledgements, redeliveries, and the configurations that are valid.

- `consumer` puts the parts together; `port` is what they see of it and of each other. `rules` judge a
  configuration, `extensions` are options of our own in its metadata, `deliver_policy` finds the first
  sequence.
- The acknowledgement machine says what is outstanding, acknowledged and sent again: `ack_state` has the
  numbers (over `engine.consumer`), `acknowledger` what an acknowledgement means, `redelivery` what goes out
  again and when. `dead_letters` takes what is given up.
- Sending: `serving`, by one of two strategies: to the requests of a `pull_delivery`, which wait in `pulls`
  (with `priority_groups`), or to the subject of a `push_delivery`; at its `pace`. `keyed_order` bounds it per
  key, `pending_counter` says how many messages are still to come.
- `info` is the ConsumerInfo, `inactivity` removes unused consumers, `advisories` tell about it.

Never here: messages on their way into a stream, or subscriptions.
"""
