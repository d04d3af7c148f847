"""Bodies: the data of messages as objects of the program.

`bodies` reads and writes them. `plain_json` is the JSON of an object; `converters` make objects of plain values again,
by their `annotations`, with `scalars` and `models` for what has no parts of their own, and raise `misfits`.
"""
