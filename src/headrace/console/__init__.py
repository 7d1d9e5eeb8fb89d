"""The console: a page for browsers, and what serves its files (ADR 0042).

The page is `static`: all that it shows comes over NATS, as the user who signs in. Here lives what a server,
or `headrace console`, needs to serve it: the files (`files`), what the page is told of its server
(`settings`), requests for them (`page_requests`) and their answers (`site`). Never lives here: sockets.

Cost: loaded only where a console is served.
"""
