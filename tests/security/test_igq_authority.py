"""Intra-group queuing judges for whom it puts, once users are checked (security 5.5, queue-sharing 9.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from broker.core.security.rights import Q, Right
from broker.mqi import MQOO, MQRC, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH, MQXQH
from broker.sharing.igq.delivery import AgentFigures, DestinationPuts
from tests.first_user import FIRST_USER
from tests.security.world import world

BOTH = Right.PUT | Right.SETALL
NEEDED = [
    ("DEF", " ", {"sender"}),
    ("DEF", "agent", {"sender", "agent"}),
    ("CTX", " ", {"sender", "borne"}),
    ("CTX", "agent", {"sender", "agent", "borne"}),
    ("ONLYIGQ", " ", set()),
    ("ONLYIGQ", "agent", {"agent"}),
    ("ALTIGQ", " ", {"borne"}),
    ("ALTIGQ", "agent", {"agent", "borne"}),
]


class Got(NamedTuple):
    """A message as a getter has it."""

    md: MessageDescriptor
    data: bytes


def arriving() -> Any:
    """A message for OTHER as it waits for the agent: `sender` has put it there, `borne` is the user that it bears."""
    inner = MessageDescriptor(version=1, user_identifier="borne")
    outer = MessageDescriptor(user_identifier="sender", encoding=546, persistence=0)
    return Got(outer, MQXQH("OTHER", "QM1", inner).to_bytes("little") + b"x")


@pytest.mark.parametrize(("authority", "user", "needed"), NEEDED)
async def test_x5_5_igqaut_says_who_is_judged(authority: str, user: str, needed: set[str]) -> None:
    async with world() as it, it.manager.connect("agent") as connection:
        await it.owner.mqsc(
            f"DEFINE QLOCAL(DEAD) DEFPSIST(NO)\nALTER QMGR DEADQ(DEAD) IGQAUT({authority}) IGQUSER('{user}')"
        )
        figures = AgentFigures()
        puts = DestinationPuts(it.manager, connection, figures)
        await puts.deliver(arriving())
        assert (figures.delivered, figures.dead_letters) == (1, 0)  # nobody is judged before users are checked
        assert (await it.owner.mqsc(FIRST_USER))[0].ok
        everybody = ("sender", "agent", "borne")
        for without in everybody:
            for lacking in (Right.PUT, Right.SETALL):
                for each in everybody:
                    it.give(each, {(Q, "OTHER"): BOTH & ~lacking if each == without else BOTH})
                before = figures.delivered
                await puts.deliver(arriving())
                assert figures.delivered == before + (without not in needed), (without, lacking)
        async with it.owner.open("DEAD", MQOO.INPUT_SHARED) as queue:
            assert figures.dead_letters == 2 * len(needed)
            for _ in range(figures.dead_letters):
                assert MQDLH.from_bytes((await queue.get()).data).reason == MQRC.NOT_AUTHORIZED
