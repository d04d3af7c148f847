"""The pipelines on Spark: what `evermq pipeline` runs, each also a function that a program can call.

`archive` copies or moves queues to Parquet, exactly once; `compaction` gathers its small files; `report` tells of them
in tables and a page. `reassemble` puts archived groups and segments together, by `logical_order` and `assembly`, and
those of a stream by `live`. `replay` puts messages back onto queues: `selection` says which, `replay_sink` where to,
and `replays` keeps what was put back. `directory` is an archive as it lies on the disk, `sink_log` Spark's list of its
files.
"""
