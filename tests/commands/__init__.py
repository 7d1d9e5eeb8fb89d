"""The commands of the client, against Headrace and nats-server: the same command, the same JSON."""
