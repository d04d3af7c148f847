"""`evermq dead-letters`: what is on a dead-letter queue, and why; back to where it came from, or discarded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

import click

from broker.cli.conversation import converse, with_url
from broker.cli.messages.printing import data_field, printable
from broker.cli.program import DONE, SOME_FAILED
from broker.cli.terminal.identifier import identifiers
from broker.cli.terminal.moment import moment
from broker.cli.terminal.terminal import say, warn
from broker.dead_letters import DeadLetterQueue, Wanted, dead_letter_queues
from broker.mqi.delivery_fields import failure_text
from broker.presentation.moments import instant_in_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from broker import Connection
    from broker.dead_letters import DeadLetter, Outcome

Command = TypeVar("Command", bound="Callable[..., Any]")

_REASON_WIDTH: Final = 100


class Filters(TypedDict):
    """The options that say which letters are meant."""

    msg_ids: tuple[bytes, ...]
    why: str | None
    handler: str | None
    since: datetime | None


def with_filters(command: Command) -> Command:
    """Give a command the options that say which letters are meant."""
    for option in (
        click.option("--since", callback=moment, metavar="TIME", help="Only what failed at TIME or later."),
        click.option(
            "--handler", metavar="NAME", help="Only what this handler failed at: module:function, or function."
        ),
        click.option(
            "--why",
            metavar="WHY",
            help="Only what died of this: failed, timed_out, crashed, ..., or the reason in the MQDLH.",
        ),
        click.option("--id", "msg_ids", multiple=True, callback=identifiers, metavar="HEX", help="Only this MsgId."),
    ):
        command = option(command)
    return command


@click.group("dead-letters")
def dead_letters() -> None:
    """List and show dead letters, put them back to where they came from, or discard them.

    What is retried or purged is recorded on SYSTEM.ADMIN.AUDIT.QUEUE.
    """


@dead_letters.command("list")
@click.argument("queue", required=False)
@with_filters
@click.option("--json", "in_json", is_flag=True, help="One JSON object a letter.")
@with_url
def list_letters(queue: str | None, *, in_json: bool, url: str, **filters: Unpack[Filters]) -> int:
    """List the letters on QUEUE, a line for each; without QUEUE those on all dead-letter queues, by queue.

    These are the queue manager's own (DEADQ), those that queues name (BOQNAME), and those defined for handlers.
    """
    return converse(url, lambda connection: _list(connection, queue, _wanted(filters), in_json=in_json))


@dead_letters.command("show")
@click.argument("queue")
@with_filters
@click.option("--json", "in_json", is_flag=True, help="One JSON object a letter.")
@with_url
def show_letters(queue: str, *, in_json: bool, url: str, **filters: Unpack[Filters]) -> int:
    """Show letters on QUEUE with all that is known of them: traceback, properties, data."""
    return converse(url, lambda connection: _show(connection, queue, _wanted(filters), in_json=in_json))


@dead_letters.command("retry")
@click.argument("queue")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All that are there now.")
@click.option("--to", metavar="Q", default="", help="The queue to put them to.  [default: where each came from]")
@click.option("--force", is_flag=True, help="Also what was put back three times, and groups that are not whole.")
@click.option("--clear-steps", is_flag=True, help="Have the steps that handlers had finished run again.")
@with_url
def retry_letters(
    queue: str, *, everything: bool, to: str, force: bool, clear_steps: bool, url: str, **filters: Unpack[Filters]
) -> int:
    """Put letters on QUEUE back to where they came from, as the messages they were, with BackoutCount 0.

    A group goes as a whole. Steps that handlers had finished stay so. What cannot go stays where it is and is told on
    standard error, with exit code 10.
    """
    selection = _meant(filters, everything=everything)

    async def retried(connection: Connection) -> int:
        async with DeadLetterQueue(connection, queue) as letters:
            return await _reported(letters.retry(selection, to=to, force=force, clear_steps=clear_steps))

    return converse(url, retried)


@dead_letters.command("purge")
@click.argument("queue")
@with_filters
@click.option("--all", "everything", is_flag=True, help="All that are there now.")
@with_url
def purge_letters(queue: str, *, everything: bool, url: str, **filters: Unpack[Filters]) -> int:
    """Discard letters on QUEUE for good."""
    selection = _meant(filters, everything=everything)

    async def purged(connection: Connection) -> int:
        async with DeadLetterQueue(connection, queue) as letters:
            return await _reported(letters.purge(selection))

    return converse(url, purged)


def _wanted(filters: Filters) -> Wanted:
    since = filters["since"]
    return Wanted(
        msg_ids=frozenset(filters["msg_ids"]),
        why=filters["why"] or "",
        handler=filters["handler"] or "",
        since=0.0 if since is None else since.timestamp(),
    )


def _meant(filters: Filters, *, everything: bool) -> Wanted:
    """Return the selection of letters to change. All of them only where that is said."""
    if everything == any(filters.values()):
        raise click.UsageError("say which letters: --id, --why, --handler or --since, or else --all")
    return _wanted(filters)


async def _list(connection: Connection, queue: str | None, selection: Wanted, *, in_json: bool) -> int:
    for name in await dead_letter_queues(connection) if queue is None else [queue]:
        on = {} if queue else {"dead_letter_queue": name}
        title = "" if queue else name
        async with DeadLetterQueue(connection, name) as letters:
            async for letter in letters.browse(selection):
                if in_json:
                    print(json.dumps({**on, **reported(letter)}))
                    continue
                if title:
                    say(title)
                say(("" if queue else "  ") + line_of(letter))
                title = ""
    return DONE


async def _show(connection: Connection, queue: str, selection: Wanted, *, in_json: bool) -> int:
    shown = 0
    async with DeadLetterQueue(connection, queue) as letters:
        async for letter in letters.browse(selection):
            if in_json:
                print(json.dumps({**reported(letter), "traceback": letter.traceback, **data_field(letter.data)}))
            else:
                say(("\n" if shown else "") + "\n".join(lines_of(letter)))
            shown += 1
    if not shown:
        warn(f"evermq: no dead letter on {queue} is meant")
    return DONE if shown else SOME_FAILED


async def _reported(outcomes: AsyncIterator[Outcome]) -> int:
    """Tell what became of each letter, and the exit code."""
    moved = stayed = 0
    async for outcome in outcomes:
        ids = " ".join(each.hex() for each in outcome.msg_ids)
        if outcome.problem:
            stayed += len(outcome.msg_ids)
            warn(f"evermq: {ids}: {outcome.problem}")
        else:
            moved += len(outcome.msg_ids)
            say(f"{ids} to {outcome.to}" if outcome.to else f"{ids} discarded")
    if not moved and not stayed:
        warn("evermq: no dead letter is meant")
    return SOME_FAILED if stayed or not moved else DONE


def reported(letter: DeadLetter) -> dict[str, Any]:
    """Return the fields of a letter, as they are written in JSON, without the empty ones."""
    md, header = letter.md, letter.header
    fields = {
        "msg_id": md.msg_id.hex(),
        "correl_id": md.correl_id.hex() if any(md.correl_id) else None,
        "group_id": md.group_id.hex() if any(md.group_id) else None,
        "msg_seq_number": md.msg_seq_number if any(md.group_id) else None,
        "offset": md.offset or None,
        "why": letter.why or None,
        "reason": None if header is None else header.reason,
        "queue": letter.q_name or None,
        "queue_manager": letter.q_mgr_name or None,
        "handler": letter.handler or None,
        "worker": letter.worker or None,
        "attempts": letter.attempts or None,
        "crashes": letter.crashes or None,
        "replays": letter.replays or None,
        "steps": list(letter.steps) or None,
        "first_failed": moment_of(letter.first_failed),
        "failed_at": moment_of(letter.failed_at),
        "exception": letter.exception or None,
        "error": letter.error or None,
        "format": md.format or None,
        "length": letter.length,
    }
    return {name: value for name, value in fields.items() if value is not None}


def line_of(letter: DeadLetter) -> str:
    """A letter in one line: when, why, from where, and which."""
    words = [moment_of(letter.failed_at) or "-", letter.why or "unknown", letter.q_name or "-"]
    if letter.handler:
        words.append(letter.handler)
    if letter.attempts:
        words.append(f"attempts={letter.attempts}")
    words.append(letter.md.msg_id.hex())
    error = failure_text(letter.exception, " ".join(letter.error.split()))
    return "  ".join([*words, error[:_REASON_WIDTH]] if error else words)


def lines_of(letter: DeadLetter) -> list[str]:
    """All of a letter: what it says of itself, its own properties, the traceback and the data."""
    named = {name: value for name, value in letter.properties.items() if not name.startswith("evermq.")}
    fields = {name.replace("_", " "): value for name, value in reported(letter).items()}
    lines = [f"{name:<14} {_told(value)}" for name, value in fields.items()]
    lines += [f"property       {name} = {value!r}" for name, value in named.items()]
    if letter.traceback:
        lines += ["traceback", *(f"  {line}" for line in letter.traceback.splitlines())]
    return [*lines, "data", f"  {_shown(letter.data)}"]


def _told(value: object) -> str:
    """A field for people: names with commas, and on one line whatever is in them."""
    return ", ".join(" ".join(str(each).split()) for each in value) if isinstance(value, list) else str(value)


def _shown(data: bytes) -> str:
    """Data as text, where it is any, else in hexadecimal digits."""
    return data.decode() if printable(data) else data.hex(" ")


def moment_of(instant: float) -> str | None:
    """An instant as text, in UTC; None for none."""
    return instant_in_words(instant) if instant else None
