"""The demonstration behind `headrace demo`: real flights through a server into a Spark table.

- `feed` has the flights, `publisher` publishes them in a process of its own (`publisher_process` starts and
  follows it), `server` is the demonstration's server, `outage` kills it in the middle.
- `job` is the Spark job, `listener` an independent client of its results, `stream` tells how far the
  stream is.
- `run` walks through it all with the files of `files`; `display` shows the run, `outcome` checks it, `chart`
  draws.

Nothing else in the project imports this package but `headrace.cli`.
"""
