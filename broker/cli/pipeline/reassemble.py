"""`evermq pipeline reassemble`: groups and segments into logical messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from broker.cli.pipeline.spark import (
    check_archive,
    counted,
    cut_off,
    names,
    orderly_stop,
    source_of,
    started,
    with_source,
    with_spark,
)
from broker.cli.terminal.progress import show
from broker.cli.terminal.seconds import SecondsType
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from broker.cli.pipeline.spark import SourceOptions
    from broker.spark.pipelines.running import Batch


@click.command()
@click.option(
    "--archive", "archive", metavar="DIR", help="The directory of an archive; without it live queues are read."
)
@click.option("--to", "directory", metavar="DIR", required=True, help="Where the tables go.")
@click.option(
    "--queue", "queues", metavar="Q[,Q...]", multiple=True, callback=names, help="Only these queues; live ones also A.*"
)
@click.option("--overwrite", is_flag=True, help="Replace the tables of an earlier run.")
@click.option("--consumer", metavar="NAME", help="Live: claim the messages as NAME, and remove them.")
@click.option(
    "--wait",
    type=SecondsType(min=0),
    metavar="S",
    help="Live: give a group up when its last message is S seconds old.  [default: 3600]",
)
@click.option("--follow", is_flag=True, help="Live: go on with what arrives, until stopped.")
@with_spark
@with_source
def reassemble(
    archive: str | None,
    directory: str,
    queues: list[str],
    *,
    overwrite: bool,
    consumer: str | None,
    wait: float | None,
    follow: bool,
    **common: Unpack[SourceOptions],
) -> None:
    """Put groups and segments together: logical messages in logical order, as Parquet.

    DIR/messages has the logical messages, DIR/incomplete what is not whole, and what it lacks. A message that is there
    twice counts once. Live, a group is written when its last message has come; run again it goes on where it was.
    """
    if archive is not None:
        if consumer is not None or wait is not None or follow:
            raise click.UsageError("--consumer, --wait and --follow are for live queues, and not for --archive")
        _of_archive(archive, directory, queues, common, overwrite=overwrite)
    elif not queues:
        raise click.UsageError("give --archive, or the live queues with --queue")
    elif overwrite:
        raise click.UsageError("--overwrite goes with --archive")
    else:
        _of_queues(queues, directory, common, consumer=consumer, wait=wait, follow=follow)


def _of_archive(archive: str, directory: str, queues: list[str], common: SourceOptions, *, overwrite: bool) -> None:
    check_archive(archive)
    with cut_off(), started(common["master"], common["settings"]) as spark:
        from broker.spark.pipelines.reassemble import reassemble as run

        done = run(spark, archive, directory, queues=queues, overwrite=overwrite, tell=show)
        show("")
        say(
            f"{counted(done.logical, 'logical message')} of {counted(done.physical, 'message')}: {directory}; "
            f"{done.incomplete:,} of {counted(done.incomplete_groups, 'incomplete group')}, "
            f"{counted(done.duplicates, 'duplicate')}"
        )


def _of_queues(
    queues: list[str], directory: str, common: SourceOptions, *, consumer: str | None, wait: float | None, follow: bool
) -> None:
    with orderly_stop() as stop, started(common["master"], common["settings"]) as spark:
        from broker.spark.pipelines.live import WAIT_SECONDS
        from broker.spark.pipelines.reassemble import Stream
        from broker.spark.pipelines.reassemble import reassemble_stream as run

        show("reading")
        seconds = WAIT_SECONDS if wait is None else wait
        live = Stream(queues=tuple(queues), source=source_of(common), consumer=consumer, wait=seconds)
        count = run(spark, live, directory, follow=follow, stop=stop, tell=_each if follow else _last)
        show("")
        end = "; stopped before the end, run it again to go on" if stop.ordered and not follow else ""
        say(f"{counted(count, 'message')} read: {directory}{end}")


def _each(batch: Batch) -> None:
    show("")
    say(str(batch))


def _last(batch: Batch) -> None:
    show(str(batch))
