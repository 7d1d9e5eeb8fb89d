"""The rows of the client's commands: a module for each word, with its commands in `ROWS`.

Only data lives here, so that help, completion and documents are cheap. Never lives here: what a command does.
"""
