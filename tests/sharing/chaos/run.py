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
from tests.sharing.chaos.database_faults import SESSIONS_MAX
from tests.sharing.chaos.judging import judge
from tests.sharing.chaos.ledger import Ledger, Outcome
from tests.sharing.chaos.processes import Member
from tests.sharing.chaos.scene import Scene
from tests.sharing.chaos.tables import watch
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
    are, in seconds; `pause`, how long programs rest between two steps; `only`, the kinds of faults, with commas between
    them, where there are not to be all (`trouble.KINDS`); `patience` multiplies the times in which a member has to
    start, to end and to be back, for a machine that has other work.
    """

    members: int = 3
    clients: int = 4
    seconds: float = 60.0
    seed: int = 1
    clocks: float = 5.0
    pause: float = 0.0
    only: str = ""
    patience: float = 1.0


@dataclass
class Result:
    """The result: what is wrong, and the figures."""

    wrong: list[str]
    happened: Counter[str]
    lost: Counter[str] = field(default_factory=Counter)  # statements, and answers to them
    units: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    moved: int = 0
    published: int = 0
    consumed: int = 0
    in_turn: int = 0
    unheard: Counter[str] = field(default_factory=Counter)
    back: dict[str, float] = field(default_factory=dict)  # how many seconds after the last fault each member served

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
        server = stack.enter_context(Postgres(in_memory=False, max_connections=str(SESSIONS_MAX)))
        group = GroupDatabase(server)
        await group.make()
        stack.push_async_callback(group.hang_up)
        await watch(group)
        lines = [await stack.enter_async_context(Proxy(server)) for _ in range(chosen.members)]
        members = [
            Member(
                f"QM{number + 1}",
                folder / f"QM{number + 1}",
                group.name,
                line.dsn,
                number * chosen.clocks,
                patience=chosen.patience,
            )
            for number, line in enumerate(lines)
        ]
        scene = Scene(group, members, lines, ledger, Random(random.random()), stack)
        trouble = Trouble(scene, chosen.only, chosen.patience)
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
            await _start(members, random)
            async with asyncio.TaskGroup() as tasks:
                for client in clients:
                    tasks.create_task(client.run())
                try:
                    await trouble.run(chosen.seconds)
                finally:
                    for client in clients:
                        client.end()
            if await trouble.heal():
                for client in clients:
                    await client.finish()
                scene.wrong += await judge(group, members, ledger)
        finally:
            for member in members:
                await member.kill()
    return _result(scene, trouble, clients)


async def _start(members: list[Member], random: Random) -> None:
    """Start all. Some end when they have lost their group, and others go on without it."""
    for member in members:
        await member.start()
        if member is members[0]:
            await member.mqsc(DEFINITIONS)
        await member.mqsc(PRIVATE)
        await member.mqsc(f"ALTER QMGR CFCONLOS({random.choice(('TERMINATE', 'TOLERATE'))})")


def _some_member(members: list[Member], random: Random) -> tuple[str, str] | None:
    serving = [member for member in members if member.serves]
    if not serving:
        return None
    member = random.choice(serving)
    return member.name, member.address


def _result(scene: Scene, trouble: Trouble, clients: list[Client]) -> Result:
    ledger = scene.ledger
    result = Result(scene.wrong, scene.happened, lost=scene.losses.lost)
    result.back = {name: round(seconds, 1) for name, seconds in trouble.back.items()}
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
