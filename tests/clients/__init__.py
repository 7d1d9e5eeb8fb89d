"""The published client nats-py, unmodified, against Headrace and against the Go server: the same tests."""
