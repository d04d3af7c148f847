"""Trouble for a group while programs work: one fault after the other, chosen by a seed, and the healing of all."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from broker import MQError
from broker.client import connect
from broker.mqi import MQGMO, MQOO, MQPMO
from tests.sharing.chaos import database_faults as databases
from tests.sharing.chaos import line_faults as lines
from tests.sharing.chaos import member_faults as members
from tests.sharing.chaos import tables
from tests.sharing.chaos.clients import PROBE
from tests.sharing.chaos.scene import LEASE_SECONDS

if TYPE_CHECKING:
    from tests.sharing.chaos.processes import Member
    from tests.sharing.chaos.scene import Fault, FaultOfMember, Scene

logger = logging.getLogger(__name__)

OUT_SECONDS_MAX: Final = LEASE_SECONDS + 30.0
"""The longest that a member may be out of its group after the last fault."""

_GIVE_UP_SECONDS: Final = 120.0
_PROBE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.2
_RESTS: Final = 0.6
"""So often all members work again before the next fault; else that comes upon what is left of the last."""


class Kind(NamedTuple):
    """A kind of fault: what it does, how often, in shares, and about how long it takes at most, in seconds."""

    fault: Fault
    share: int
    seconds: float = 5.0


def _of_one(fault: FaultOfMember) -> Fault:
    """Return what does this to any member."""

    async def chosen(scene: Scene) -> None:
        await fault(scene, scene.one())

    return chosen


_LONG: Final = 2 * LEASE_SECONDS

KINDS: Final = {
    "kill": Kind(_of_one(members.kill), 4),
    "die_at_a_step": Kind(_of_one(members.die_at_a_step), 6),
    "die_in_a_recovery": Kind(members.die_in_a_recovery, 1, _LONG),
    "end_in_order": Kind(_of_one(members.end_in_order), 1),
    "stop_briefly": Kind(_of_one(members.stop_briefly), 2),
    "stop_beyond_the_lease": Kind(_of_one(members.stop_beyond_the_lease), 1, _LONG),
    "two_members_at_once": Kind(members.two_members_at_once, 3, _LONG),
    "terminate_session": Kind(lines.terminate_session, 3),
    "cut_listeners": Kind(lines.cut_listeners, 1),
    "lose_answers": Kind(lines.lose_answers, 3),
    "lose_a_statement": Kind(lines.lose_a_statement, 5, _LONG),
    "hold_line": Kind(_of_one(lines.hold_line), 2, _LONG),
    "slow_lines": Kind(lines.slow_lines, 3, _LONG),
    "slow_statements": Kind(databases.slow_statements, 3),
    "restart_database": Kind(databases.restart_database, 1),
    "crash_database": Kind(databases.crash_database, 2),
    "freeze_database": Kind(databases.freeze_database, 2),
    "exhaust_sessions": Kind(databases.exhaust_sessions, 2),
    "fail_over": Kind(databases.fail_over, 1, _LONG),
}
"""The kinds, by name. Each can be switched on alone."""


def kinds_of(only: str) -> dict[str, Kind]:
    """Return the kinds that are named, with commas between them; all where none is. Raises ValueError."""
    names = [name.strip() for name in only.split(",") if name.strip()] or list(KINDS)
    if unknown := [name for name in names if name not in KINDS]:
        raise ValueError(f"there is no kind of fault named {', '.join(unknown)}: there are {', '.join(KINDS)}")
    return {name: KINDS[name] for name in names}


class Trouble:
    """All that goes wrong in a scene. `back` tells how many seconds after the last fault each member served again. What
    members have to do in time may take `patience` times as long.
    """

    def __init__(self, scene: Scene, only: str = "", patience: float = 1.0) -> None:
        self.back: dict[str, float] = {}
        self._scene = scene
        self._patience = patience
        self._kinds = kinds_of(only)
        self._next: list[str] = []

    async def run(self, seconds: float) -> None:
        """Make trouble for so long. Each kind has its turns."""
        scene, now = self._scene, asyncio.get_running_loop().time
        until = now() + seconds
        while (left := until - now()) > 0:
            await asyncio.sleep(min(left, scene.random.uniform(0.2, 1.5)))
            if not self._next:
                self._next = [name for name, kind in self._kinds.items() for _ in range(kind.share)]
                scene.random.shuffle(self._next)
            name = self._next.pop()
            kind = self._kinds[name]
            if left < kind.seconds < seconds:
                continue
            logger.info("trouble: %s", name)
            scene.happened[name] += 1
            await kind.fault(scene)
            await scene.revive()
            await self._look(name)
            if scene.random.random() < _RESTS:
                await asyncio.gather(*(self._until_it_works(member) for member in scene.members))
                await asyncio.sleep(scene.random.uniform(0.0, 2.0))

    async def _until_it_works(self, member: Member) -> None:
        """Return when a member works again, or has not for long: by the next fault there is something to lose then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(OUT_SECONDS_MAX):
                while True:
                    if member.has_ended:
                        await self._scene.start(member)
                    with suppress(MQError, OSError):
                        await _work(member)
                        return
                    await asyncio.sleep(_AGAIN_SECONDS)

    async def heal(self) -> bool:
        """Let nothing go wrong any more. Return when each member works; False where one does not work in time."""
        scene = self._scene
        scene.losses.spare()
        for line in scene.lines:
            line.delay = line.to_client = line.to_server = None
            line.let_through()
        for member in scene.members:
            member.go_on()
        since, begun = asyncio.get_running_loop().time(), await asyncio.to_thread(tables.now, scene.group)
        async with asyncio.TaskGroup() as tasks:
            for member in scene.members:
                tasks.create_task(self._until_back(member, since, begun))
        late = {name: seconds for name, seconds in self.back.items() if seconds > self._patience * OUT_SECONDS_MAX}
        scene.wrong += [f"{name} was out of its group for {seconds:.0f} s" for name, seconds in late.items()]
        return not late

    async def _until_back(self, member: Member, since: float, begun: str) -> None:
        """Return when a member does its work, and goes on."""
        now, last = asyncio.get_running_loop().time, "it has not renewed its lease"
        patience = self._patience * _GIVE_UP_SECONDS
        while (seconds := now() - since) < patience:
            try:
                async with asyncio.timeout(patience - seconds):
                    if member.has_ended:
                        await self._scene.start(member)
                async with asyncio.timeout(self._patience * _PROBE_SECONDS):
                    await _work(member)
                if await asyncio.to_thread(tables.has_renewed, self._scene.group, member.name, begun, LEASE_SECONDS):
                    break
            except (MQError, OSError, TimeoutError) as error:
                last = str(error) or type(error).__name__
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            self._scene.wrong.append(f"{member.name} does not come back: {last}: {member.log()[-3000:]}")
        self.back[member.name] = now() - since

    async def _look(self, after: str) -> None:
        """Look at what must never be, and tell of each kind once."""
        wrong = self._scene.wrong
        told = {complaint.split(":", 1)[0] for complaint in wrong}
        for kind, rows in (await asyncio.to_thread(tables.found, self._scene.group, tables.BREACHES)).items():
            if kind not in told:
                wrong.append(f"{kind}: after {after}: {rows}")
                logger.error("%s", wrong[-1])


async def _work(member: Member) -> None:
    """Put a message by way of a member, and get one."""
    async with connect(f"mq://{member.address}/{member.name}", appl_name="probe") as connection:
        queue = await connection.open(PROBE, MQOO.OUTPUT | MQOO.INPUT_SHARED)
        await queue.put(b"", options=MQPMO.NO_SYNCPOINT)
        await queue.get(options=MQGMO.NO_SYNCPOINT, wait=1.0)
