"""The system account: events that the server publishes there, and requests that it answers.

Reading order: `service` (the in-process client), `events` (when an event is published), `messages` (its
fields), `requests` (the answers), `users` (requests from any account), `options` (how requests are read),
`encoding` (compressed answers), `control` (kick, lame duck, reload), `requester` (who asked for those),
`config_difference` (what a reload would change), `tables_state` (tables of this server). `requests` and what
it needs is loaded with the first request.
"""
