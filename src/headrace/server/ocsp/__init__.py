"""Certificates of peers, checked with the OCSP responders of their authorities (`ocsp_peer`).

`checks` decides, over `chains` (which certificates there are), `responders` (asking), `answers` (reading what
comes back, and remembering it). Loaded only where `ocsp_peer` is configured.
"""
