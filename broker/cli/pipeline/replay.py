"""`evermq pipeline replay`: archived messages back onto queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from broker.cli.pipeline.spark import (
    SourceOptions,
    check_archive,
    counted,
    cut_off,
    names,
    source_of,
    started,
    with_source,
    with_spark,
)
from broker.cli.terminal.identifier import identifiers
from broker.cli.terminal.moment import moment
from broker.cli.terminal.progress import show
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from datetime import datetime

    from broker.spark.pipelines.replay import Replayed


class ReplayOptions(SourceOptions):
    """The options that are passed on as they are given: besides the target, which messages are wanted."""

    since: datetime | None
    until: datetime | None
    msg_ids: tuple[bytes, ...]
    correl_ids: tuple[bytes, ...]
    group_ids: tuple[bytes, ...]


@click.command()
@click.option("--archive", "archive", metavar="DIR", required=True, help="The directory of the archive.")
@click.option("--queue", "queue", metavar="Q", help="The queue to put them to.  [default: each message's own]")
@click.option(
    "--from",
    "queues",
    metavar="Q[,Q...]",
    multiple=True,
    callback=names,
    help="Only what is of these queues.",
)
@click.option(
    "--since", callback=moment, metavar="TIME", help="Only what was put at TIME or later, as 2026-01-31T12:00."
)
@click.option("--until", callback=moment, metavar="TIME", help="Only what was put before TIME.")
@click.option(
    "--msg-id", "msg_ids", multiple=True, callback=identifiers, metavar="HEX", help="Only messages with this MsgId."
)
@click.option(
    "--correl-id", "correl_ids", multiple=True, callback=identifiers, metavar="HEX", help="Or with this CorrelId."
)
@click.option("--group-id", "group_ids", multiple=True, callback=identifiers, metavar="HEX", help="Or this group.")
@click.option(
    "--key", metavar="KEY", help="What this is made once for.  [default: made of archive, filters and target]"
)
@click.option("--audit", metavar="Q", help="The queue of the audit message.  [default: SYSTEM.EVERMQ.REPLAY]")
@click.option("--no-audit", is_flag=True, help="Put no audit message.")
@click.option("--dry-run", is_flag=True, help="Tell what would be put, and put nothing.")
@with_spark
@with_source
def replay(
    archive: str,
    queue: str | None,
    queues: list[str],
    *,
    key: str | None,
    audit: str | None,
    no_audit: bool,
    dry_run: bool,
    **common: Unpack[ReplayOptions],
) -> None:
    """Put archived messages back onto queues: all of them appear together, in their order, or none.

    Run again it puts nothing twice: the queue manager keeps the key of a replay with it. Groups go whole or not at all;
    what goes by time or identifier is judged by the first message of a group, or by any. Identifiers, group fields,
    priority, persistence, properties and data are those archived, the context is new.
    """
    if audit is not None and no_audit:
        raise click.UsageError("--audit and --no-audit exclude each other")
    check_archive(archive)
    with cut_off(), started(common["master"], common["settings"]) as spark:
        from broker.spark.pipelines.replay import replay as run
        from broker.spark.pipelines.replaying.replay_sink import AUDIT_QUEUE, Target
        from broker.spark.pipelines.replaying.selection import Wanted

        source = source_of(common)
        target = Target(
            url=source.url,
            path=source.path,
            queue=queue,
            audit=None if no_audit else audit or AUDIT_QUEUE,
            options=source.options,
        )
        wanted = Wanted(
            queues=tuple(queues),
            since=common["since"],
            until=common["until"],
            msg_ids=common["msg_ids"],
            correl_ids=common["correl_ids"],
            group_ids=common["group_ids"],
        )
        done = run(spark, archive, target, wanted, key=key, dry_run=dry_run, tell=show)
        show("")
        say(_words(done, dry_run=dry_run))


def _words(done: Replayed, *, dry_run: bool) -> str:
    left = f"; {counted(done.left_out, 'message')} of groups that are not whole left out" if done.left_out else ""
    if done.before is not None:
        later = (
            f"; {counted(done.since, 'message')} wanted now were not there then: give another --key"
            if done.since
            else ""
        )
        return f"already replayed at {done.before:%Y-%m-%d %H:%M:%S} UTC (key {done.key}): nothing was put{later}{left}"
    verb = "would be replayed" if dry_run else "replayed"
    return (
        f"{counted(done.messages, 'message')} {verb}, {counted(done.groups, 'group')} among them (key {done.key}){left}"
    )
