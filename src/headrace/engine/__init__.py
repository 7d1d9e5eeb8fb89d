"""The compiled island: every loop that runs once per message, and nothing that decides.

Bytes of a connection go in, frames come out in per-connection outboxes. No socket, no clock, no
policy, no JSON lives here. Reading order: `structs.pxd` (the shapes), `memory` (allocation, live
counters), `interest` (subject trie, plan cache), `link` (outbox, partial frames, router), `delivery`
(one message to its plan), `client` (the client protocol's parser).
"""
