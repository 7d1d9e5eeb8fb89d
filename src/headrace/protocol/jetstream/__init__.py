"""JetStream's JSON API as bytes and back: configurations, requests, responses, acknowledgements, errors.

Never here: a stream, a clock, or what a request comes to.
"""
