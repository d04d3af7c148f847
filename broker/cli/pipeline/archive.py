"""`evermq pipeline archive`: queues to Parquet, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from broker.cli.pipeline.spark import counted, names, orderly_stop, source_of, started, with_source, with_spark
from broker.cli.terminal.progress import show
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from broker.cli.pipeline.spark import SourceOptions
    from broker.spark.pipelines.archive import Archived
    from broker.spark.pipelines.running import Batch


@click.command()
@click.option(
    "--queue", "queues", metavar="Q[,Q...]", multiple=True, required=True, callback=names, help="The queues; also A.*"
)
@click.option("--to", "directory", metavar="DIR", required=True, help="The directory of the archive.")
@click.option("--move", is_flag=True, help="Remove the messages from their queues, when they are in the archive.")
@click.option("--consumer", metavar="NAME", help="What --move claims messages as.  [default: made of DIR]")
@click.option("--follow", is_flag=True, help="Go on with what arrives, until stopped.")
@click.option("--compact", is_flag=True, help="Afterwards gather the small files of the archive.")
@with_spark
@with_source
def archive(
    queues: list[str],
    directory: str,
    *,
    consumer: str | None,
    follow: bool,
    move: bool,
    compact: bool,
    **common: Unpack[SourceOptions],
) -> None:
    """Copy the messages of queues to Parquet files in DIR, or move them there; each is there once.

    It ends when all is there that was on the queues when it began. Run again it goes on where it was, however it ended.
    DIR has a folder for each queue and day (`queue=Q/date=2026-01-31`), which any program reads that reads Parquet by
    Spark; its columns are on the page of pipelines.
    """
    if consumer is not None and not move:
        raise click.UsageError("--consumer goes with --move")
    with orderly_stop() as stop, started(common["master"], common["settings"]) as spark:
        from broker.spark.pipelines.archive import Archiving
        from broker.spark.pipelines.archive import archive as run
        from broker.spark.pipelines.compaction import compact as gather

        how = Archiving(move=move, consumer=consumer, follow=follow)
        show("reading")
        tell = _each if follow else _last
        done = run(spark, queues, directory, source_of(common), how, stop=stop, tell=tell)
        show("")
        say(_words(done, directory))
        if compact and not stop.ordered:
            files = gather(spark, directory, tell=show)
            show("")
            say(f"{files.before:,} files are {files.after:,}; {files.removed:,} that did not count were removed")


def _each(batch: Batch) -> None:
    show("")
    say(str(batch))


def _last(batch: Batch) -> None:
    show(str(batch))


def _words(done: Archived, directory: str) -> str:
    end = "; stopped before the end, run it again to go on" if done.stopped else ""
    batches = counted(done.batches, "batch", "batches")
    return f"{counted(done.messages, 'message')} archived to {directory} in {batches}{end}"
