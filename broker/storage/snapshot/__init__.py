"""The snapshot: an SQLite database that holds all up to one record of the log.

- `checks` the checks of rows, which begin with the secret key of the store.
- `delta` what the batches since the snapshot leave: the rows that it lacks, and those that have gone.
- `statements` a delta as few SQL statements, each for many rows.
- `database` what is done to the database itself: plain functions that block.
- `steps` the steps of handlers there.
- `carry_over` how a delta comes into the snapshot, step by step, beside other work.
- `sql/`, `scripts` the schema and the statements, in files of their own.
"""
