"""The diagnosis of what will hurt: checks of a configuration and of running servers, for `headrace doctor`.

- `evidence`: what checks look at: options, facts of this machine, documents of servers.
- `symptoms`: the shape of a check and of what it finds.
- `access_checks`, `store_checks`, `server_checks`, `stream_checks`, `mesh_checks`: the checks, each a pure
  function of the evidence.
- `table`: all checks in one table, and the diagnosis; docs/doctor.md is made of it.
- `gathering`: evidence from a file, this machine and servers.

Never lives here: what is printed (`client.doctor`), how documents are asked for (`client.server_asking`).
"""
