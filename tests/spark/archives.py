"""Archives as tests need them: rows of messages, laid down as `evermq pipeline archive` would leave them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from broker import QueueManager
from broker.mqi import MQGMO, MQMO, MQOO, MQRC, MQSS, GetMessageOptions, MessageDescriptor, MQError
from broker.spark.pipelines.archive import SETTINGS, read_archive
from broker.spark.pipelines.directory import ArchiveDirectory, Description
from broker.spark.pipelines.sink_log import DataFile
from broker.spark.schema import NAMES, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from broker import Connection, Message, Queue

START = datetime(2026, 1, 31, 23, 0, tzinfo=UTC)
NO_ID = bytes(24)
WHOLE = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE | MQGMO.COMPLETE_MSG


def row(position: int, body: bytes = b".", **fields: Any) -> dict[str, Any]:
    """A message as the source reads it: plain, put `position` seconds after START, its MsgId made of its position."""
    put = fields.pop("put_timestamp", START + timedelta(seconds=position))
    md = MessageDescriptor(msg_id=position.to_bytes(24, "big"), format="MQSTR", coded_char_set_id=1208, priority=4,
                           persistence=1)  # fmt: skip
    own = {
        "put_date": f"{put:%Y%m%d}",
        "put_time": f"{put:%H%M%S}00",
        "queue": "Q",
        "position": position,
        "put_timestamp": put,
        "properties": {"colour": "blue"},
        "body": body,
    }
    known = {name: _plain(getattr(md, name)) for name in NAMES if hasattr(md, name)}
    return {**known, **own, **fields}


def _plain(value: Any) -> Any:
    """Not a member of an enumeration, which Spark does not take."""
    return int(value) if isinstance(value, int) else value


def part(position: int, group: bytes, number: int, flags: int, body: bytes = b".", **fields: Any) -> dict[str, Any]:
    """A message of a group, or a segment."""
    return row(position, body, group_id=group.ljust(24, b"\0"), msg_seq_number=number, msg_flags=flags, **fields)


def frame(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """Rows as the source gives them."""
    return spark.createDataFrame([tuple(each[name] for name in NAMES) for each in rows], SCHEMA)


def lay_down(spark: SparkSession, rows: DataFrame, path: Path) -> Path:
    """An archive of these messages in a new directory."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    kept = rows.withColumns(
        {
            "date": sql.to_date("put_date", "yyyyMMdd"),
            "data_length": sql.octet_length("body"),
            "archived": sql.current_timestamp(),
        }
    )
    kept.write.partitionBy("queue", "date").parquet(str(path))
    place = ArchiveDirectory(path)
    columns = {field.name: field.dataType.simpleString() for field in kept.schema}
    with place.writing():
        place.describe(Description(queues=("*",), mode="browse", columns=columns))
        (path / "_spark_metadata").mkdir()
        (path / "_spark_metadata" / "0.compact").write_text("v1")
        files = sorted(place.data_files())
        place.sink_log.replace([DataFile(each, (path / each).stat().st_size) for each in files])
    return path


def archived(spark: SparkSession, path: Path) -> DataFrame:
    """The messages of an archive."""
    return read_archive(spark, ArchiveDirectory(path))


Put = tuple[bytes, MessageDescriptor]


async def queue_and_gets(
    puts: Sequence[Put], *, max_length: int | None = None
) -> tuple[list[dict[str, Any]], list[Message]]:
    """Put messages on a queue of a real queue manager: what a browse of it finds, as rows, and what gets with
    LOGICAL_ORDER, ALL_MSGS_AVAILABLE and COMPLETE_MSG are then given.
    """
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        length = "" if max_length is None else f" MAXMSGL({max_length})"
        await connection.mqsc(f"DEFINE QLOCAL(Q) MAXDEPTH(999999) MSGDLVSQ(FIFO){length}")
        async with connection.open("Q", MQOO.OUTPUT | MQOO.BROWSE | MQOO.INPUT_SHARED) as queue:
            await _put(connection, queue, puts)
            browsed = await everything(queue, MQGMO.BROWSE_NEXT)
            return [_row(place, message) for place, message in enumerate(browsed, 1)], await everything(queue, WHOLE)


async def _put(connection: Connection, queue: Queue, puts: Sequence[Put]) -> None:
    for begin in range(0, len(puts), 1000):
        async with connection.unit_of_work():
            for body, md in puts[begin : begin + 1000]:
                await queue.put(body, md)


async def everything(queue: Queue, options: int) -> list[Message]:
    """The messages that gets with these options are given, until there are no more."""
    found: list[Message] = []
    while True:
        # Segments behind a change of the character set are got without COMPLETE_MSG.
        cut = bool(found) and found[-1].segment_status == MQSS.SEGMENT
        step = options & ~MQGMO.COMPLETE_MSG if cut else options
        try:
            found.append(await queue.get(None, GetMessageOptions(options=step, match_options=MQMO.NONE)))
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
            return found


def _row(position: int, message: Message) -> dict[str, Any]:
    fields = {name: _plain(getattr(message.md, name)) for name in NAMES if hasattr(message.md, name)}
    properties = {name: str(value) for name, value in message.properties.items()}
    return row(position, message.data, **{**fields, "properties": properties})
