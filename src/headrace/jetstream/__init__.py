"""JetStream as a service: streams and consumers over the message log, one account at a time.

`account` composes. Sans-I/O: deliveries and time in, publications and appends out. No socket, thread or file.
"""
