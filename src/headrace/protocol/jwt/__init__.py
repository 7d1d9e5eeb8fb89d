"""JSON web tokens signed with nkeys: what operators say of accounts, accounts of users, servers of requests.

Reading order: `claims` (what is said, as frozen data), `shapes` over `reading` (JSON to that data),
`decoding` (token to claims, signature included), `encoding` (the way back, for a callout), `rules` (what
claims may say). Never lives here: whom to trust (`headrace.core.trust`), where tokens come from, the clock.
"""
