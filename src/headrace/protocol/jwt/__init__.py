"""JSON web tokens signed with nkeys: claims of operators about accounts, of accounts about users, of servers.

Reading order: `claims` (the claims as frozen data), `shapes` over `reading` (JSON to that data), `decoding`
(token to claims, signature included), `encoding` (the way back, for a callout), `rules` (which claims are
valid), `limits` (from where and when a user may connect). Never lives here: whom to trust
(`headrace.core.trust`), where tokens come from, the clock.
"""
