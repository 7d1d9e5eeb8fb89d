"""The system account: what the server tells about itself, and what it can be asked and told to do there.

Reading order: `service` (the in-process client), `events` (when something is told), `messages` (what events
say), `requests` (what is answered), `options` and `syntax` (how requests are read), `control` (kick, lame
duck, reload). `requests` and what it needs is loaded with the first request.
"""
