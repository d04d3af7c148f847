"""A queue manager that is killed behind each command about who may do what: what was answered is there (X2.1)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from broker import QueueManager
from tests.first_user import FIRST_USER

if TYPE_CHECKING:
    from broker import Connection

COMMANDS = (
    FIRST_USER,
    "DEFINE USER('a') GROUPS('g')",
    "DEFINE QLOCAL(X)",
    "SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a','b','c') GROUP('g') AUTHADD(PUT)",
    "SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) GROUP('g') AUTHADD(CRT)",
    "SET CHLAUTH('A.*') TYPE(ADDRESSMAP) ADDRESS('192.0.2.*') MCAUSER('a')",
    "DEFINE CHANNEL(A.B) CHLTYPE(SVRCONN) SSLPEER('CN=x')",
    "DEFINE AUTHINFO(I) AUTHTYPE(IDPWOS) FAILDLAY(3)",
    "SET CHLAUTH('*') TYPE(BLOCKUSER) ACTION(REMOVEALL)",
    "SET AUTHREC PROFILE(X) OBJTYPE(QUEUE) PRINCIPAL('a','b') AUTHADD(GET) AUTHRMV(PUT)",
    "DELETE QLOCAL(X)",
    "DELETE USER('a')",
)
PROGRAM = """
import asyncio, os, signal, sys
from broker import QueueManager

async def main():
    async with QueueManager.open(name="QM1", data=sys.argv[1]) as manager, manager.connect() as connection:
        (reply,) = await connection.mqsc(sys.argv[2])
        print(reply.code, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_x2_1_each_answered_change_survives_a_kill(tmp_path: Path) -> None:
    data, twin = tmp_path / "killed", tmp_path / "closed"
    for command in COMMANDS:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, data, command, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        printed, _ = await program.communicate()
        assert program.returncode == -signal.SIGKILL
        async with QueueManager.open(name="QM1", data=twin) as manager, manager.connect() as connection:
            (reply,) = await connection.mqsc(command)
            assert printed.decode().strip() == reply.code
            assert reply.ok, reply.text
            expected = await everything(connection)
        async with QueueManager.open(name="QM1", data=data) as manager, manager.connect() as connection:
            assert await everything(connection) == expected, command


async def everything(connection: Connection) -> list[object]:
    """All that DISPLAY shows, without the times."""
    nouns = ("QLOCAL(*)", "USER(*)", "AUTHINFO(*)", "CHANNEL(*)", "CHLAUTH('*')", "AUTHREC")
    replies = await connection.mqsc("\n".join(f"DISPLAY {noun} ALL" for noun in nouns))
    times = ("ALTDATE", "ALTTIME", "CRDATE", "CRTIME")
    return [[{key: row[key] for key in row if key not in times} for row in reply.attributes] for reply in replies]
