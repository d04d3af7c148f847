"""`evermq group upgrade` of a group with tables that were made anew since, from a shell."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from anyio.to_thread import run_sync

from broker.engine.shared_queues import GroupError
from tests.sharing.proxy import Proxy
from tests.sharing.released import ReleasedGroup
from tests.sharing.released.leavings import leave_everything, older_members
from tests.sharing.released.making import HERE, found_in, load, named
from tests.sharing.released.standing import standing
from tests.sharing.test_group_command import Said
from tests.sharing.test_membership import manager_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

FIRST_LINE = "the tables of the group in schema {} have version 2; those of 3 are others\n"


@pytest.fixture
async def old(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ReleasedGroup]:
    """A group that members of the older release have left; `evermq group` finds it."""
    group = ReleasedGroup(postgres, 2)
    named(group)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", group.name)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", group.dsn)
    async with group:
        yield group


async def upgrade(arguments: str = "", answers: str = "", verb: str = "upgrade") -> Said:
    """Run the command, and answer its questions."""
    command = [sys.executable, "-m", "broker", "group", verb, *arguments.split()]

    def run() -> Said:
        return Said(subprocess.run(command, capture_output=True, text=True, check=False, input=answers))

    return await run_sync(run)


async def test_programs_find_what_members_of_the_older_release_would_have_found(old: ReleasedGroup) -> None:
    """What a real member has left that was killed: units of work are backed out, and all else is there, in order."""
    await load(old, 2)
    said = await upgrade("--yes")
    assert (said.code, said.error) == (0, "")
    assert await found_in(old) == json.loads((HERE / "2.found").read_text("utf-8"))
    assert await old.rows("SELECT * FROM breach") == []


async def test_it_says_what_it_will_do_and_how_far_it_is_and_asks_twice(old: ReleasedGroup) -> None:
    await leave_everything(old)
    before = await standing(old)
    messages, units = len(await old.rows("SELECT FROM message")), len(await old.rows("SELECT FROM unit_of_work"))
    declined = await upgrade(answers="n\n")
    assert declined.code == 130
    assert declined.out.startswith(
        FIRST_LINE.format(old.schema) + f"to be copied: {messages} messages and {units} units of work, "
    )
    assert "that takes about 1 minute, in which no member can join\nDo it? [y/N]: " in declined.out
    assert await old.value("SELECT count(*) FROM properties") == 2
    halfway = await upgrade(answers="y\nn\n")
    assert halfway.code == 130
    assert f"copied {messages} of {messages} messages, 100 %\nall is copied, and compared" in halfway.out
    undone = await upgrade("--undo")
    assert undone.out == f"the upgrade is taken back: the SQL of the group in schema {old.schema} has version 2\n"
    assert await standing(old) == before
    await upgrade(answers="y\nn\n")
    done = await upgrade(answers="y\ny\n")
    assert f"an upgrade has been broken off that had copied {messages} of these messages: it goes on\n" in done.out
    assert done.out.endswith(f"the SQL of the group in schema {old.schema} had version 2, and has 3\n")
    assert (done.code, await standing(old)) == (0, before)
    again = (await upgrade()).out.splitlines()
    assert again[0] == f"the SQL of the group in schema {old.schema} has version 3"
    assert again[1:] == [f"QM{number} joined last with version 1" for number in (1, 2, 3)]
    refused = await upgrade("--undo")
    assert (refused.code, "there is no way back" in refused.error) == (20, True)


async def test_it_names_the_member_that_lives(old: ReleasedGroup) -> None:
    (member,) = await older_members(old, "QM7")
    refused = await upgrade("--yes")
    assert (refused.code, refused.out) == (20, "")
    assert "QM7 has a lease for" in refused.error
    assert "End all members, or wait that long" in refused.error
    await member.session.close()


async def test_a_member_that_finds_old_tables_says_which_command_to_run(old: ReleasedGroup) -> None:
    await leave_everything(old)
    before = await standing(old)
    with pytest.raises(GroupError, match=r"of version 2, .*end all members, and run `evermq group upgrade --dsn DSN`"):
        async with manager_of(old):
            pass
    for verb in ("init", "status"):
        said = await upgrade(verb=verb)
        assert (said.code, "run `evermq group upgrade --dsn DSN`" in said.error) == (20, True), said.error
    await upgrade(answers="y\nn\n")
    with pytest.raises(GroupError, match=r"an upgrade of .* is under way: run `evermq group upgrade"):
        async with manager_of(old):
            pass
    await upgrade("--undo")
    assert await standing(old) == before


@pytest.mark.parametrize("piece", [5, 20, 40, 60, 80, 100])
async def test_killed_at_a_piece_to_the_database_it_goes_on(old: ReleasedGroup, piece: int) -> None:
    """By SIGKILL, when so many pieces have gone to the database."""
    await leave_everything(old)
    before = await standing(old)
    async with Proxy(old.server) as line:
        command = [sys.executable, "-m", "broker", "group", "upgrade", "--yes"]
        environment = {**os.environ, "EVERMQ_QUEUE_SHARING_GROUP_DSN": line.dsn}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        pieces = 0

        def killing(passing: bytes) -> bytes | None:
            nonlocal pieces
            pieces += 1
            if pieces == piece:
                with suppress(ProcessLookupError):
                    process.kill()
            return passing if pieces <= piece else None

        line.to_server = killing
        assert await process.wait() == -9
    said = await upgrade("--yes")
    assert (said.code, said.error) == (0, "")
    assert await standing(old) == before
