"""The administrator: resolves a consumer whose checkpoint is given up, and tries what must be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker import MQError
from broker.mqi import MQRC
from tests.simulation.claims.actors import ENDED
from tests.simulation.claims.records import Query, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.interface.claims.claims import ConsumerState
    from tests.simulation.claims.actors import Actor
    from tests.simulation.claims.source import Supervisor


async def give_up(actor: Actor, supervisor: Supervisor, others: Iterable[Actor] = ()) -> None:
    """End all that reads a consumer, decide what has become of the batch that was pinned, and begin anew: a new
    checkpoint with a new output.
    """
    records, old = actor.world.records, supervisor.query
    for query in records.queries:
        query.over |= query.consumer == old.consumer
    for driver in (*supervisor.drivers, *others):
        driver.kill()
    state = await _look(actor, old.consumer)
    if state is not None:
        await _resolve(actor, old.consumer, state)
    supervisor.query = query = Query(old.consumer, old.groups)
    records.queries.append(query)


async def _resolve(actor: Actor, consumer: str, state: ConsumerState) -> None:
    """Resolve a consumer: what is in an output counts as done."""
    records = actor.world.records
    highest = max(query.highest for query in records.queries if query.consumer == consumer)
    unsure = state.pinned > max(state.acknowledged, highest)
    if unsure and actor.chance(0.5) and await _command(actor, f"RESOLVE CONSUMER({consumer}) ACTION(BACKOUT)"):
        raise Violation(f"{consumer} was backed out, though claims of it were pinned: {state}")
    action = "COMMIT" if highest >= state.pinned else "BACKOUT) PINNED(YES"
    made = records.begin(consumer, actor.name)
    while not await _command(actor, f"RESOLVE CONSUMER({consumer}) ACTION({action})"):
        await actor.pause()
    made.ended = records.tick()


async def _look(actor: Actor, consumer: str) -> ConsumerState | None:
    """Return what is kept of a consumer, asked until it is answered; None where it has never come to be."""
    while True:
        try:
            state: ConsumerState = await actor.ask("consumer", consumer, ())
        except MQError as error:
            if error.reason == MQRC.OBJECT_NAME_ERROR:  # a new one needs the names of queues
                return None
            if error.reason not in (*ENDED, MQRC.STORAGE_MEDIUM_FULL):
                raise
            await actor.pause()
        else:
            return state


async def _command(actor: Actor, text: str) -> bool:
    """Return True if a command was carried out, and not refused."""
    try:
        (reply,) = await actor.ask("mqsc", text)
    except MQError as error:
        if error.reason not in ENDED:
            raise
        return False
    return bool(reply.ok)
