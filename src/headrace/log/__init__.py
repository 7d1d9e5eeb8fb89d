"""The durable message log: append-only segments on disk, and its twin in memory.

Here live logs, the store that keeps many of them, and the committer that makes them durable together;
never a wire, a socket, or anything of STAN, JetStream or Spark. Reading order: `port`, `memory`, `file`
and the parts it names, `store`, `committer`; below them `filesystem` and `filters`.
"""
