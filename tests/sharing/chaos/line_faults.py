"""What goes wrong between members and the database: sessions end, statements and answers are lost, held and slow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.sharing.chaos.scene import LEASE_SECONDS

if TYPE_CHECKING:
    from random import Random

    from tests.sharing.chaos.processes import Member
    from tests.sharing.chaos.scene import Scene

_SLOW_SECONDS: Final = (0.05, 0.5, 2.0, 5.0)
_SLOW_SHARES: Final = (0.02, 0.1, 0.4)
_COMES_WITHIN_SECONDS: Final = 2.0
_LOSSES_AT_ONCE: Final = 6


async def terminate_session(scene: Scene) -> None:
    """End a session, of the purpose that has been met with least."""
    by_purpose: dict[str, list[str]] = {}
    for pid, purpose in await _sessions(scene):
        by_purpose.setdefault(purpose, []).append(pid)
    if by_purpose:
        purpose = min(sorted(by_purpose), key=lambda purpose: scene.happened[_met(purpose)])
        scene.happened[_met(purpose)] += 1
        await scene.sql(f"SELECT pg_terminate_backend({int(scene.random.choice(by_purpose[purpose]))})")


async def cut_listeners(scene: Scene) -> None:
    """End the sessions that hear of news."""
    for pid, purpose in await _sessions(scene):
        if purpose == "listen":
            await scene.sql(f"SELECT pg_terminate_backend({int(pid)})")


async def _sessions(scene: Scene) -> list[list[str]]:
    """Return the process and the purpose of each session of a member."""
    return await scene.sql(
        "SELECT pid, split_part(application_name, '/', 4) FROM pg_stat_activity"
        f" WHERE starts_with(application_name, '{scene.group.name}/')"
    )


def _met(purpose: str) -> str:
    return f"session of {purpose or 'nothing'} terminated"


async def lose_answers(scene: Scene) -> None:
    """Lose answers of the database: each member's line is cut for answers of another kind."""
    kinds = scene.random.sample((b"COMMIT", b"SELECT", b""), k=3)
    for line, kind in zip(scene.lines, kinds, strict=False):
        line.to_client = lambda piece, kind=kind: None if kind in piece else piece
    await asyncio.sleep(scene.random.uniform(0.1, 0.5))
    for line in scene.lines:
        line.to_client = None


async def lose_a_statement(scene: Scene) -> None:
    """Leave unknown whether some statements were made, one after the other: each of those that has been lost least of
    all that were seen. What does not come by itself may come with a start, or a takeover.
    """
    losses = scene.losses
    for _ in range(scene.random.randint(1, _LOSSES_AT_ONCE)):
        names = sorted(losses.seen)
        if not names:
            return
        before = scene.random.random() < 0.3
        kind = "statement" if before else "answer"
        losses.lose(min(names, key=lambda name: _lost(scene, kind, name)), before=before)
        for _ in range(20):
            if losses.name is None:
                break
            await asyncio.sleep(_COMES_WITHIN_SECONDS / 20)
        if losses.name is not None:
            scene.missed[f"{kind} {losses.name}"] += 1
            if scene.random.random() < 0.5:
                await scene.one().kill()
                await scene.revive()
        losses.spare()


def _lost(scene: Scene, kind: str, name: str) -> tuple[int, float]:
    """Return what a statement is chosen by: the number of times that it was lost, or has not come."""
    tried = f"{kind} {name}"
    return scene.losses.lost[tried] + scene.missed[tried], scene.random.random()


async def hold_line(scene: Scene, member: Member) -> None:
    """Nothing passes between one member and the database for a while, and all of it afterwards."""
    line = scene.line_of(member)
    line.hold()
    await asyncio.sleep(scene.random.choice((0.1, 3.0, LEASE_SECONDS + 2.0)))
    line.let_through()


async def slow_lines(scene: Scene) -> None:
    """For a while some statements and some answers are on their way for long, at random, of some of the members."""
    slow = [line for line in scene.lines if scene.random.random() < 0.7] or scene.lines[:1]
    for line in slow:
        line.delay = Delay(scene.random, scene.random.choice(_SLOW_SHARES), scene.random.choice(_SLOW_SECONDS))
    await asyncio.sleep(scene.random.uniform(3.0, LEASE_SECONDS))
    await meanwhile(scene)
    for line in slow:
        line.delay = None


async def meanwhile(scene: Scene) -> None:
    """Something else happens while the database is slow; or nothing does."""
    if scene.random.random() < 0.5:
        return
    fault = scene.random.choice((terminate_session, lose_answers, lose_a_statement, _kill_one))
    scene.happened[f"while slow: {fault.__name__.strip('_').replace('_', ' ')}"] += 1
    await fault(scene)


async def _kill_one(scene: Scene) -> None:
    await scene.one().kill()


class Delay:
    """How long each piece that passes is held up: a `share` of them for up to so many seconds."""

    def __init__(self, random: Random, share: float, seconds: float) -> None:
        self._random = random
        self._share = share
        self._seconds = seconds

    def __call__(self) -> float:
        return self._random.uniform(0.0, self._seconds) if self._random.random() < self._share else 0.0
