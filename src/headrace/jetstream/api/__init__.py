"""The requests of the JetStream API: `dispatch` receives them, `endpoints` finds which request a subject
means.

- `request` is one request from its bytes to its answer; `contexts` is what rules are told of an account,
  `infos` the StreamInfo and ConsumerInfo of answers, `paging` cuts lists into parts.
- `deletions` deletes messages whose requests came together.
- `streams`, `consumers`, `messages`, `backup` and `account` have the requests about each; `leaders` those
  about the servers that lead and have them.

Never here: the rules of configurations, or what a stream or a consumer does.
"""
