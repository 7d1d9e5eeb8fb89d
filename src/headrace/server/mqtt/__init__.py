"""Clients over MQTT: the port, who may connect, one client's life, and its packets on their way to the hub.

A client of MQTT is a client: its session is a `ClientSession` with other words, its place in an account, its
permissions and its limits are theirs. Here lives what ties the engine's link and the account's hub
(`headrace.mqtt`) to it: the port (`port`, `listener`), its rules (`access`), the life of one client
(`session`), its permissions (`permissions`), its packets (`ops`), what it is told at the end (`words`) and at
the beginning (`greeting`), its trace (`traces`), the time that JetStream has to store what it publishes
(`store_deadline`), and which account has a hub (`hubs`). Over WebSocket they
come through the port of `server.websocket`.

Cost: loaded only where a configuration has an `mqtt` block.
"""
