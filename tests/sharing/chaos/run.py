"""One run: a database, members, programs, trouble, and the judgement."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.sharing.chaos.clients import DEFINITIONS, PRIVATE, Clerk, Client
from tests.sharing.chaos.judging import judge, watch
from tests.sharing.chaos.ledger import Ledger, Outcome
from tests.sharing.chaos.processes import Member
from tests.sharing.chaos.trouble import Trouble
from tests.sharing.chaos.writers import Writer
from tests.sharing.database import GroupDatabase
from tests.sharing.postgres import Postgres
from tests.sharing.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path


_SHOWN: Final = 20
_CLERKS: Final = 2
_WRITERS: Final = 2


@dataclass
class Chosen:
    """The kind of run. `clients` is how many there are for each member; `clocks` how far apart those of the members
    are, in seconds; `pause`, how long programs rest between two steps.
    """

    members: int = 3
    clients: int = 4
    seconds: float = 60.0
    seed: int = 1
    clocks: float = 5.0
    pause: float = 0.0


@dataclass
class Result:
    """The result: what is wrong, and the figures."""

    wrong: list[str]
    happened: Counter[str]
    units: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    moved: int = 0
    published: int = 0
    consumed: int = 0
    in_turn: int = 0
    unheard: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        figures: dict[str, Any] = {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
            if name != "wrong"
        }
        return "\n".join([json.dumps(figures, indent=1), *self.wrong[:_SHOWN], f"{len(self.wrong)} wrong"])


async def run(folder: Path, chosen: Chosen) -> Result:
    """Run it, with the data of members and what they log under `folder`."""
    random = Random(chosen.seed)
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(Postgres(in_memory=False))
        group = GroupDatabase(server)
        await group.make()
        await watch(group)
        lines = [await stack.enter_async_context(Proxy(server)) for _ in range(chosen.members)]
        members = [
            Member(f"QM{number + 1}", folder / f"QM{number + 1}", group.name, line.dsn, number * chosen.clocks)
            for number, line in enumerate(lines)
        ]
        trouble = Trouble(group, members, lines, ledger, Random(random.random()))
        kinds = [Client] * chosen.members * chosen.clients + [Clerk] * _CLERKS + [Writer] * _WRITERS
        clients = [
            kind(
                f"C{number}",
                ledger,
                Random(random.random()),
                lambda: _some_member(members, random),
                [member.name for member in members],
                chosen.pause,
            )
            for number, kind in enumerate(kinds)
        ]
        try:
            await _start(members)
            async with asyncio.TaskGroup() as tasks:
                for client in clients:
                    tasks.create_task(client.run())
                try:
                    await trouble.run(chosen.seconds)
                finally:
                    for client in clients:
                        client.end()
            await trouble.heal()
            for client in clients:
                await client.finish()
            wrong = await judge(group, members, ledger)
        finally:
            for member in members:
                await member.kill()
    return _result(wrong, trouble, ledger, clients)


async def _start(members: list[Member]) -> None:
    for member in members:
        await member.start()
        if member is members[0]:
            await member.mqsc(DEFINITIONS)
        await member.mqsc(PRIVATE)


def _some_member(members: list[Member], random: Random) -> tuple[str, str] | None:
    serving = [member for member in members if member.serves]
    if not serving:
        return None
    member = random.choice(serving)
    return member.name, member.address


def _result(wrong: list[str], trouble: Trouble, ledger: Ledger, clients: list[Client]) -> Result:
    result = Result(wrong, trouble.happened)
    result.units.update(unit.outcome.value for unit in ledger.puts.values())
    result.messages = sum(len(unit.keys) for unit in ledger.puts.values())
    result.moved = ledger.moved
    result.published = ledger.published
    result.unheard = ledger.unheard
    result.in_turn = sum(len(keys) for _, keys in ledger.in_turn)
    result.consumed = sum(outcome is Outcome.COMMITTED for outcome in ledger.consumed.values())
    for client in clients:
        result.reasons.update(client.reasons)
    return result
