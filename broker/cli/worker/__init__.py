"""`evermq worker`: handlers in processes of their own, over the wire (handlers section 9).

`loading` finds what is to be served, `serving` is one process that serves it, `processes` the one above several of
them, which `changes` tells of changed files.
"""

from broker.cli.worker.command import worker as worker
