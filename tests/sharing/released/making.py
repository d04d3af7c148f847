"""What a release puts here, made by its members: `python -m tests.sharing.released.making`.

`N.rows` are the rows in the tables of a group that a failed member and one that has ended have left, as `pg_dump`
writes them; `N.found` is what programs find there when the failed one has been recovered. N is the version of the SQL.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.config import Config, LimitsConfig
from broker.interface.claims.claims import Winner
from broker.mqi import MQGMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor, MQError
from broker.sharing.database.schema import VERSION
from tests.conformance.expect import ALL
from tests.engine.reader import Reader
from tests.engine.writer import Row, Writer
from tests.handlers.desk import TERMS
from tests.sharing.database import LEAKS, GroupDatabase
from tests.sharing.members import Members
from tests.sharing.postgres import Postgres
from tests.sharing.workers import Workers

if TYPE_CHECKING:
    from broker import Queue

NAME: Final = "MADE"
HERE: Final = Path(__file__).parent
DEFINITIONS: Final = """\
DEFINE PROCESS(P) QSGDISP(GROUP)
DEFINE QLOCAL(Q) QSGDISP(SHARED)
DEFINE QLOCAL(HANDLED) QSGDISP(SHARED) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL(CLAIMED) QSGDISP(SHARED)
DEFINE QLOCAL(STAGED) QSGDISP(SHARED)
DEFINE QLOCAL(KEYED) QSGDISP(SHARED)
"""
CONFIG: Final = Config(limits=LimitsConfig(prepared_age=1e9))
_STAGED: Final = [Row(b"staged %d" % number, "STAGED", MessageDescriptor(persistence=1)) for number in range(2)]
_EACH: Final = [(rank, persistence) for rank in (0, 4, 9) for persistence in (0, 1)]


async def work(members: Members) -> None:
    """Programs of QM1 are at messages of all kinds in all ways, in the moment when it fails."""
    program = await members.connect("QM1", "program")
    queue = await program.open("Q", ALL)
    for text in ("got", "twice", "there", "locked", "long"):
        for rank, persistence in _EACH:
            body = f"{text} {rank} {persistence} ".encode() * (300 if text == "long" else 1)
            await queue.put(body, _described(text, rank, persistence))
    other = await (await members.connect("QM1", "other")).open("Q", ALL)
    for _ in range(2):  # each is backed out twice, and got once more
        for _ in _EACH:
            await _get(other, "twice", MQGMO.SYNCPOINT)
        await other._connection.backout()
    for _ in _EACH:
        await _get(queue, "got", MQGMO.SYNCPOINT)
        await _get(other, "twice", MQGMO.SYNCPOINT)
    await queue.put("pending", _described("pending", 9, 1), MQPMO.SYNCPOINT)
    await queue.put("pending key", _described("pending", 9, 1), MQPMO.SYNCPOINT, key="in a unit")
    browser = await (await members.connect("QM1", "browser")).open("Q", ALL)
    for _ in range(3):
        await _get(browser, "locked", MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    keyed = await program.open("KEYED", ALL)
    await keyed.put("kept", key="kept", window=None)
    await keyed.put("later", key="later", delay=1e8)
    handled = await program.open("HANDLED", ALL)
    await handled.put_many([b"handled %d" % number for number in range(4)])
    workers = Workers(members)
    desk = await workers.start("QM1", TERMS, "HANDLED")
    await desk.take(2)
    claimed = await program.open("CLAIMED", ALL)
    await claimed.put_many([b"claimed %d" % number for number in range(5)])
    reader = Reader((await members.connect("QM1", "reader")).port, "ARCHIVE", "CLAIMED")
    await reader.register()
    await reader.claim(messages=3)
    writer = Writer((await members.connect("QM1", "writer")).port)
    await writer.stage(0, _STAGED)
    await members.crash("QM1")


def _described(text: str, rank: int, persistence: int) -> MessageDescriptor:
    return MessageDescriptor(priority=rank, persistence=persistence, correl_id=text.encode().ljust(24, b"."))


async def _get(queue: Queue, text: str, options: int) -> bytes:
    wanted = MessageDescriptor(correl_id=text.encode().ljust(24, b"."))
    return (await queue.get(wanted, options=GetMessageOptions(options=options))).data


async def found(members: Members) -> dict[str, Any]:
    """What programs find that come to QM2 when QM1 is recovered; JSON can hold it."""
    program = await members.connect("QM2", "program")
    there: dict[str, Any] = {"Q": await _browsed(await program.open("Q", ALL))}
    workers = Workers(members)
    desk = await workers.start("QM2", TERMS, "HANDLED")
    there["HANDLED"] = [[each.messages[0].data.decode(), each.attempt] for each in await desk.take(10)]
    await workers.__aexit__()
    reader = Reader((await members.connect("QM2", "reader")).port, "ARCHIVE", "CLAIMED")
    await reader.resume()
    there["ARCHIVE"] = [body.decode() for body in await reader.batch()]
    there["CLAIMED"] = await _browsed(await program.open("CLAIMED", ALL))
    writer = Writer((await members.connect("QM2", "writer")).port)
    await writer.publish(0, Winner(writer.unit(0), len(_STAGED)))
    there["STAGED"] = await _browsed(await program.open("STAGED", ALL))
    keyed = await program.open("KEYED", ALL)
    there["KEYED"] = await _browsed(keyed)
    for key, window in (("kept", None), ("later", 300)):
        there[f"key {key}"] = (await keyed.put("again", key=key, window=window)).duplicate
    there["key in a unit"] = (await (await program.open("Q", ALL)).put("again", key="in a unit")).duplicate
    return there


async def _browsed(queue: Queue) -> list[list[Any]]:
    there: list[list[Any]] = []
    options = MQGMO.BROWSE_FIRST
    while True:
        try:
            message = await queue.get(options=options)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return there
        options = MQGMO.BROWSE_NEXT
        md = message.md
        there.append([message.data[:20].decode(), len(message.data), md.priority, md.persistence, md.backout_count])


def rows_of(server: Postgres, schema: str) -> str:
    """The statements that make the rows of a group, and set its sequences."""
    command = [
        str(server._binaries / "pg_dump"), *server._where("evermq"), "--data-only", "--column-inserts",
        f"--schema={schema}", f"--exclude-table={schema}.properties", f"--exclude-table={schema}.alive",
        f"--exclude-table={schema}.virtual_time",
    ]  # fmt: skip
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if line.startswith(("INSERT INTO ", "SELECT pg_catalog.setval"))]
    return "\n".join(line.replace(f"{schema}.", "") for line in lines) + "\n"


def named(group: GroupDatabase) -> None:
    """Give a group that is not made yet the name of the one whose rows these are: keys are hashed with it."""
    group.name, group.schema = NAME, f"evermq_{NAME.lower()}"
    group.forgive(*LEAKS)


async def load(group: GroupDatabase, version: int) -> None:
    """Fill the tables of a new group with the rows that members of a release have left."""
    session = await group.session()
    async with session.transaction():
        await session.execute("DELETE FROM structure; DELETE FROM security")
        await session.execute((HERE / f"{version}.rows").read_text("utf-8"))
    await session.close()


async def make(version: int = VERSION) -> None:
    """Write both files, and see that the rows can be read again."""
    with Postgres() as server:
        named(group := GroupDatabase(server))
        async with group:
            async with Members(group, 2, CONFIG) as members:
                await members.mqsc(DEFINITIONS)
                await work(members)
            (HERE / f"{version}.rows").write_text(rows_of(server, group.schema), "utf-8")
        named(again := GroupDatabase(server))
        async with again:
            await load(again, version)
            (HERE / f"{version}.found").write_text(json.dumps(await found_in(again)) + "\n", "utf-8")


async def found_in(group: GroupDatabase) -> dict[str, Any]:
    """What programs find in a group that has been filled with the rows of a release."""
    await group.rows("UPDATE member SET lease_until = clock_timestamp() WHERE state <> 'INACTIVE'")
    async with Members(group, 2, CONFIG) as members:
        await members.clock.rest()
        return await found(members)


if __name__ == "__main__":
    anyio.run(make)
