"""The commands of the client: what a person does to a NATS server, ours or another.

`rows/` has what each is called and takes; a module here has what it does, and is loaded when it is called:

- `rtt`: the way to the server and back.
- `pub`, `sub`: messages out and in; `templates` in bodies; `arrivals` of subjects and streams, which become
  an `arrival_report` or, by `message_dump`, files.
- `request`, `reply`: questions and answers; `message_command`: a command that is run for a message.
- `consumer_info`, `consumer_change`, `consumer_control`, `consumer_reading`: consumers looked at, made,
  paused or removed, read; `consumer_config` is what their flags say.
- `counter`: sums that anybody adds to.
- `micro`, `micro_serve`: services found, asked and served.
- `kv_buckets`, `kv_keys`, `kv_files`: buckets of keys, their keys, and these as files;
  `object_buckets`, `objects`: the same of objects; `buckets`: what both kinds have in common;
  `bucket_settings`: the bucket of a call, and what flags make of its stream.
- `config_changes`: configurations of streams, consumers and buckets compared, and what a change would do.
- `top`: a server and its connections, live; `top_looks` at servers, `top_lines` for people.
- `doctor`: what will hurt.
- `console`: the page for browsers, for a server elsewhere; `console_serving`: its port on this machine.
- `trace`: the way of a message; `api_errors`: numbers of errors, with `error_explanations`; `api_schemas`:
  the JSON of the API; `cheat`: lines to copy.
- `nkey`: keys, and what they sign and encrypt; `key_files`: where keys are.
- `creds`, `creds_user`: credentials files, users signed; `token_claims`: what a token says.
- `context`: saved connections; `account`: who one is, and what one may.
- `bench`: what a server does under load; `latency`: how long messages take from one to another.
- `stream_list`, `stream_info`: streams, looked at; `stream_change`: made and changed, by the flags that
  `stream_config` reads; `stream_removal`: emptied and removed; `stream_view`: their messages;
  `stream_backup`: in directories; `stream_copy`: copied; `stream_cluster`: their leaders and servers.
- `server_list`, `server_report`, `server_request`: servers, tables about them, and what they say;
  `server_asking`: where answers come from.
- `server_check`, `jetstream_check`: checks for cron and Nagios; `check_results`: how they end.
- `account_report`: an account's connections and statistics; `events`: what servers tell of.
- `server_control`: commands to servers; `server_tools`: mappings and passwords for a configuration.

Never lives here: the protocol (`headrace.client`), flags, tables, exit codes (`headrace.cli`).
"""
