"""The users of the queues beside the consumers: producers, and a rival who gets."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from broker import MQError
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from broker.mqi.structures import NO_ID
from tests.simulation.claims.actors import ENDED
from tests.simulation.claims.records import Member, Sent, Taking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import Queue
    from tests.simulation.claims.actors import Actor

UNITS = 10
"""How many single messages or groups a producer puts."""

GROUP_MAX = 4
_FULL = MQRC.STORAGE_MEDIUM_FULL


class Producer:
    """A program that puts single messages and groups, members in any order, one unit of work after the other."""

    def __init__(self, name: str, queues: Sequence[str]) -> None:
        self._name = name
        self._queues = queues
        self._numbers = count(1)

    async def run(self, actor: Actor) -> None:
        for number in range(UNITS):
            group = name_id(f"{self._name}g{number}") if actor.chance(0.5) else None
            members = self._members(actor, group)
            parts = [[each] for each in members] if actor.chance(0.5) else [members]
            for part in parts:
                await self._put(actor, part)
                await actor.pause()

    def _members(self, actor: Actor, group: bytes | None) -> list[Sent]:
        random = actor.random
        size = random.randint(1, GROUP_MAX) if group else 1
        numbers = list(range(1, size + 1))
        if actor.chance(0.5):
            random.shuffle(numbers)
        queue, priority = random.choice(self._queues), random.randint(0, 2)
        persistent = bool(group) or not actor.chance(0.2)
        places = [Member(group, each, size) if group else None for each in numbers]
        return [
            Sent(f"{self._name}.{next(self._numbers)}", queue, priority, persistent, place, actor.world.life)
            for place in places
        ]

    async def _put(self, actor: Actor, part: Sequence[Sent]) -> None:
        """Put them in one unit of work, again and again where there is no room. Where the answer is lost nobody knows,
        and they are not put again.
        """
        actor.world.records.sent.update((each.name, each) for each in part)
        while True:
            connection, life = actor.connection, actor.world.life
            for each in part:
                each.life = life
            try:
                for each in part:
                    await connection.put1(each.queue, each.name.encode(), _descriptor(each), MQPMO.SYNCPOINT)
                await connection.commit()
            except MQError as error:
                actor.world.note(f"{actor.name} put {[each.name for each in part]}: {error}")
                if error.reason in ENDED:
                    return
                if error.reason not in (_FULL, MQRC.BACKED_OUT):
                    raise
                if error.reason == _FULL:
                    await _backed_out(actor)
                await actor.pause()
            else:
                actor.world.note(f"{actor.name} has put {[each.name for each in part]}")
                for each in part:
                    each.sure = True
                return


class Rival:
    """A program that gets messages of the same queues under syncpoint, and commits or backs out."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    async def run(self, actor: Actor) -> None:
        while not actor.world.quiet:
            try:
                await self._unit(actor)
            except MQError as error:
                actor.world.note(f"{actor.name}: {error}")
                if error.reason not in (*ENDED, MQRC.BACKED_OUT, _FULL):
                    raise
                if error.reason == _FULL:
                    await _backed_out(actor)
            await actor.pause()

    async def _unit(self, actor: Actor) -> None:
        connection = actor.connection
        taking = Taking()
        actor.world.records.taken.append(taking)
        queue = await connection.open(actor.random.choice(self._queues), MQOO.INPUT_SHARED)
        for _ in range(actor.random.randint(1, 3)):
            await self._get(actor, queue, taking)
            await actor.pause()
        if actor.chance(0.4):
            await connection.backout()
        else:
            taking.committed = None
            try:
                await connection.commit()
            except MQError as error:
                if error.reason == MQRC.BACKED_OUT:
                    taking.committed = False
                raise
            taking.committed = True
        actor.world.note(f"{actor.name} has taken {taking}")
        await queue.close()

    async def _get(self, actor: Actor, queue: Queue, taking: Taking) -> None:
        known = list(actor.world.records.sent)
        correl_id = name_id(actor.random.choice(known)) if known and actor.chance(0.3) else NO_ID
        options = GetMessageOptions(options=MQGMO.SYNCPOINT, match_options=MQMO.MATCH_CORREL_ID)
        try:
            got = await queue.get(MessageDescriptor(correl_id=correl_id), options)
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
        else:
            taking.names.append(got.data.decode())


def name_id(name: str) -> bytes:
    """An identifier of 24 bytes that says it."""
    return name.encode().ljust(24)


async def _backed_out(actor: Actor) -> None:
    try:
        await actor.connection.backout()
    except MQError as error:
        if error.reason not in (*ENDED, _FULL):
            raise


def _descriptor(sent: Sent) -> MessageDescriptor:
    md = MessageDescriptor(priority=sent.priority, persistence=int(sent.persistent), correl_id=name_id(sent.name))
    if sent.member is not None:
        last = sent.member.number == sent.member.size
        md.group_id, md.msg_seq_number = sent.member.group, sent.member.number
        md.msg_flags = MQMF.LAST_MSG_IN_GROUP if last else MQMF.MSG_IN_GROUP
    return md
