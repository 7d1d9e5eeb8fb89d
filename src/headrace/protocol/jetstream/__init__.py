"""The JSON API of JetStream as types: configurations, requests, responses, acknowledgements, errors.

- `configs` are the configurations of streams and consumers, with `numbers`, `names`, `times` and `levels`
  (the API level that metadata asks for) as the types of their fields.
- `requests` and `responses` are the bodies of the API, `pulls` those of requests for messages, `acks` and
  `pubacks` the acknowledgements, `response_types` what the responses of either server have, `api_schemas` the
  JSON schemas of all these, `errors` the API's error numbers and texts, `headers` the headers of
  messages.
- `go_decode` makes our types of JSON as Go does, with Go's error texts (over `protocol.go_json`); `foreign`
  reads a part of JSON that another program composed.

Never here: a stream, a clock, or the outcome of a request.
"""
