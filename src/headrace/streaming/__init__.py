"""NATS Streaming (STAN) on the message log, as a service inside the server.

Here live clients, channels and subscriptions as one machine: deliveries and time in, publications out. No
socket, no thread, no file of its own. Source: streaming protocol specification.
"""
