"""`evermq history`: what has become of the messages of a queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from broker.cli.conversation import converse, with_url
from broker.cli.program import DONE, SOME_FAILED
from broker.cli.terminal.identifier import identifiers
from broker.cli.terminal.moment import moment
from broker.cli.terminal.terminal import say, warn
from broker.mqi import MQGMO, MQMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor, MQError
from broker.mqi.history import OUTCOMES, HistoryRecord, history_q_name, read_record
from broker.presentation.moments import instant_in_words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from broker import Connection, Message, Queue

_WHAT_WIDTH: Final = 100


class WantedRecords(NamedTuple):
    """Which records are meant."""

    msg_ids: tuple[bytes, ...] = ()
    outcomes: tuple[str, ...] = ()
    since: float = 0.0
    key: str | None = None

    def has(self, record: HistoryRecord) -> bool:
        """True if this is one of them, its MsgId aside."""
        return (
            (not self.outcomes or record.outcome in self.outcomes)
            and record.ended >= self.since
            and (self.key is None or (record.key is not None and str(record.key) == self.key))
        )


@click.command()
@click.argument("queue")
@click.option("--id", "msg_ids", multiple=True, callback=identifiers, metavar="HEX", help="Only this MsgId.")
@click.option("--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Only what has come to this.")
@click.option("--since", callback=moment, metavar="TIME", help="Only what ended at TIME or later.")
@click.option("--key", metavar="KEY", help="Only messages that their handler orders by this value.")
@click.option("--json", "in_json", is_flag=True, help="One JSON object a message.")
@with_url
def history(
    queue: str,
    *,
    msg_ids: tuple[bytes, ...],
    outcomes: tuple[str, ...],
    since: datetime | None,
    key: str | None,
    in_json: bool,
    url: str,
) -> int:
    """Show what has become of the messages of QUEUE, whose handler has history=, in the order in which they ended.

    It ends with exit code 10 where a message that --id names has no record.
    """
    wanted = WantedRecords(msg_ids, outcomes, 0.0 if since is None else since.timestamp(), key)
    return converse(url, lambda connection: _show(connection, queue, wanted, in_json=in_json))


async def _show(connection: Connection, q_name: str, wanted: WantedRecords, *, in_json: bool) -> int:
    missing = dict.fromkeys(wanted.msg_ids)
    async with connection.open(history_q_name(q_name), MQOO.BROWSE) as queue:
        async for message in _browsed(queue, wanted.msg_ids):
            msg_id = message.md.correl_id
            missing.pop(msg_id, None)
            try:
                record = read_record(message.data)
            except ValueError as error:
                warn(f"evermq: {msg_id.hex()}: {error}")
                continue
            if wanted.has(record):
                if in_json:
                    print(json.dumps({"msg_id": msg_id.hex(), **_reported(record)}))
                else:
                    say(_line(msg_id, record))
    for msg_id in missing:
        warn(f"evermq: {q_name} has no record of a message with MsgId {msg_id.hex()}")
    return SOME_FAILED if missing else DONE


async def _browsed(queue: Queue, msg_ids: tuple[bytes, ...]) -> AsyncIterator[Message]:
    """The messages of a history; with MsgIds those of them, by the index of CorrelIds."""
    if not msg_ids:
        async for message in queue.messages(options=MQGMO.BROWSE_NEXT):
            yield message
        return
    for msg_id in filter(any, dict.fromkeys(msg_ids)):  # by zeros a get would look for anything
        options = MQGMO.BROWSE_FIRST
        try:
            while True:
                by_id = GetMessageOptions(options=options.value, match_options=MQMO.MATCH_CORREL_ID.value)
                yield await queue.get(MessageDescriptor(correl_id=msg_id), by_id)
                options = MQGMO.BROWSE_NEXT
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise


def _reported(record: HistoryRecord) -> dict[str, Any]:
    """A record as JSON has it: what says nothing is left out."""
    empty = HistoryRecord("", "", "", "", 0)._asdict()
    fields = record._asdict()
    kept = ("queue", "handler", "worker", "outcome", "attempts", "put", "began", "ended", "waited", "ran")
    return {name: value for name, value in fields.items() if name in kept or value != empty[name]}


def _line(msg_id: bytes, record: HistoryRecord) -> str:
    ended = instant_in_words(record.ended, _in_milliseconds)
    ran = "" if record.ran is None else f"ran {record.ran:.3f} s"
    attempts = f"{record.attempts} attempt{'' if record.attempts == 1 else 's'}"
    return "  ".join(filter(None, (msg_id.hex(), ended, record.outcome, attempts, ran, _what(record))))


def _what(record: HistoryRecord) -> str:
    """Return what a message has brought: the value, or why it failed."""
    if record.outcome != "succeeded":
        what = record.failure
    elif record.value_type:
        what = f"a {record.value_type} of length {record.value_length}"
    else:
        what = "" if record.value is None else json.dumps(record.value, ensure_ascii=False)
    return " ".join(what.split())[:_WHAT_WIDTH]


def _in_milliseconds(at: datetime) -> str:
    return at.isoformat(" ", "milliseconds").removesuffix("+00:00")
