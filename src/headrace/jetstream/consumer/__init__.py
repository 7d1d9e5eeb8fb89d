"""Consumers: what is sent to clients, what they acknowledged, what is sent again, and what may be configured.

`consumer` puts the parts together: `ack_state` has the numbers, `serving` sends, `pulls` and `push` know to
whom, `redelivery` knows what is sent again. Never here: messages on their way into a stream, or
subscriptions.
"""
