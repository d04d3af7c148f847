"""The log: the journal of a queue manager on the disk.

- `record` one batch as bytes, with the check and the place that make it count.
- `log` the files that records are written to in turn, one record at a time.
- `scan` the files read whole at a start: which records count, and whether something is missing between them.
- `pace` when a record may be written on the event loop.
- `manifest` what the other files must be, in two slots that are written in turn.
"""
