"""What the tests of whole servers share: processes, raw connections, certificates, waiting.

Nothing here knows a test; nothing here imports Headrace, since half of the servers are not Headrace.
"""
