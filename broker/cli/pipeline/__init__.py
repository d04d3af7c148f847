"""`evermq pipeline`: jobs on Spark. Spark is imported when one of them runs: no other command waits for it."""

from __future__ import annotations

import click

from broker.cli.pipeline.archive import archive
from broker.cli.pipeline.reassemble import reassemble
from broker.cli.pipeline.replay import replay
from broker.cli.pipeline.report import report


@click.group()
def pipeline() -> None:
    """Archive queues, report on them, put archived messages back: jobs on Spark.

    They need the extra `spark`: pip install 'evermq[spark]'. Each can be stopped at any moment, by Ctrl-C or SIGTERM;
    run again it goes on where it was. Without --master Spark runs on this machine.
    """


for _command in (archive, report, reassemble, replay):
    pipeline.add_command(_command)
