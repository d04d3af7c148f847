"""`evermq pipeline report`: what an archive and live queues tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from broker.cli.pipeline.spark import (
    check_archive,
    counted,
    cut_off,
    names,
    source_of,
    started,
    with_source,
    with_spark,
)
from broker.cli.terminal.progress import show
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from broker.cli.pipeline.spark import SourceOptions


@click.command()
@click.option("--archive", "archive", metavar="DIR", required=True, help="The directory of the archive.")
@click.option("--to", "directory", metavar="DIR", required=True, help="Where the tables and report.html go.")
@click.option(
    "--queue",
    "queues",
    metavar="Q[,Q...]",
    multiple=True,
    callback=names,
    help="Live queues, for their depth; also A.*",
)
@with_spark
@with_source
def report(archive: str, directory: str, queues: list[str], **common: Unpack[SourceOptions]) -> None:
    """Tell of an archive and of live queues: arrivals, sizes, depths, backouts, time on the queue, dead letters.

    DIR/report.html is one file that needs nothing else; DIR/tables has the same as Parquet. Each run with --queue adds
    the depths of these queues to those of the runs before it.
    """
    check_archive(archive)
    with cut_off(), started(common["master"], common["settings"]) as spark:
        from broker.spark.pipelines.report import report as run

        made = run(spark, archive, directory, queues=queues, source=source_of(common), tell=show)
        show("")
        say(f"{counted(made.messages, 'message')} on {counted(made.queues, 'queue')}: {made.page}")
