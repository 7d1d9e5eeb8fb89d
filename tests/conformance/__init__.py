"""Conformance: the vectors of the client protocol specification, and scripts compared with the Go server."""
