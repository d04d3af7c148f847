"""What goes wrong with members: they are killed, they stand still, they die at a step, one of them or two at once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tests.sharing.chaos.line_faults import hold_line
from tests.sharing.chaos.scene import LEASE_SECONDS
from tests.sharing.chaos.tables import STEPS_OF_RECOVERY, STEPS_OF_TAKEOVER

if TYPE_CHECKING:
    from tests.sharing.chaos.processes import Member
    from tests.sharing.chaos.scene import Scene

logger = logging.getLogger(__name__)


async def kill(scene: Scene, member: Member) -> None:
    await member.kill()
    await asyncio.sleep(scene.random.choice((0.0, 0.5, 2.0)))


async def die_at_a_step(scene: Scene, member: Member) -> None:
    await _die(scene, member, scene.steps.next(), 5.0)


async def die_in_a_recovery(scene: Scene) -> None:
    """A member that recovers another, unless a third one is quicker."""
    failed, recoverer = scene.random.sample(scene.members, 2)
    when, name = scene.random.choice(("before", "after")), scene.random.choice(STEPS_OF_TAKEOVER)
    number = 2 if name in STEPS_OF_RECOVERY else 1  # the first is of its own start
    await failed.kill()
    await _die(scene, recoverer, f"{when} {name} {number}", 1.5 * LEASE_SECONDS)


async def _die(scene: Scene, member: Member, step: str, seconds: float) -> None:
    """A member starts, and dies at a step; if it does not come there within so long, it is killed."""
    await member.kill()
    logger.info("%s dies %s", member.name, step)
    await scene.start(member, step)
    assert member.process is not None
    try:
        async with asyncio.timeout(seconds):
            await member.process.wait()
        scene.happened[f"died {' '.join(step.split()[:-1])}"] += 1
    except TimeoutError:
        await member.kill()


async def end_in_order(_: Scene, member: Member) -> None:
    await member.end()


async def stop_briefly(scene: Scene, member: Member) -> None:
    await _stop(member, scene.random.uniform(0.1, 3.0))


async def stop_beyond_the_lease(scene: Scene, member: Member) -> None:
    await _stop(member, LEASE_SECONDS + scene.random.uniform(1.0, 4.0))


async def _stop(member: Member, seconds: float) -> None:
    member.stop()
    await asyncio.sleep(seconds)
    member.go_on()


_OF_TWO: Final = kill, kill, die_at_a_step, stop_briefly, stop_beyond_the_lease, hold_line


async def two_members_at_once(scene: Scene) -> None:
    """Two members fail while the other has not got over it: each in its own way, at the same time."""
    two = scene.random.sample(scene.members, min(2, len(scene.members)))
    faults = [scene.random.choice(_OF_TWO) for _ in two]
    for fault in faults:
        scene.happened[f"of two at once: {fault.__name__.replace('_', ' ')}"] += 1
    await asyncio.gather(*(fault(scene, member) for fault, member in zip(faults, two, strict=True)))
