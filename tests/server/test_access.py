"""Explanations of rights over the wire, as in the queue manager's own process (security 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from broker import connect, connect_sync
from broker.mqi import MQRC, Access, AccessStep, MQError

if TYPE_CHECKING:
    from broker import QueueManager

ASKED = AccessStep("rights", "PUT on QUEUE Q", "refused: PUT is missing")
REFUSED = Access(
    allowed=False,
    user="bob",
    steps=(
        AccessStep("USER(bob)", "no such user", "in no group"),
        AccessStep("AUTHREC PRINCIPAL(bob)", "QUEUE Q", "no record fits"),
        ASKED,
    ),
    grant="SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)",
)


async def test_x9_1_an_open_is_explained_with_the_command_that_allows_it(manager: QueueManager, url: str) -> None:
    async with connect(url) as connection, manager.connect() as own:
        for asking in (connection, own):
            assert await asking.explain_open("Q", for_="put", as_user="bob") == REFUSED
        await connection.mqsc(REFUSED.grant, check=True)
        access = await connection.explain_open("Q", for_="put", as_user="bob")
        assert (access.allowed, access.steps[-1], access.grant) == (True, ASKED._replace(verdict="allowed"), "")


@pytest.mark.usefixtures("manager")
async def test_x9_1_a_connection_is_explained_to_threads_too(url: str) -> None:
    def ask() -> Access:
        with connect_sync(url) as connection:
            assert connection.explain_open("Q", for_="put", as_user="bob") == REFUSED
            return connection.explain_connect("bob", from_="192.0.2.7", channel="SYSTEM.DEF.SVRCONN")

    access = await to_thread.run_sync(ask)
    assert (access.allowed, access.grant) == (False, "")
    assert "TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)" in access.steps[-1].rule


@pytest.mark.usefixtures("manager")
async def test_x9_1_a_question_without_sense_is_refused_over_the_wire(url: str) -> None:
    async with connect(url) as connection:
        for call, reason in (
            (connection.explain_open("NO.SUCH.QUEUE", for_="put", as_user="bob"), MQRC.UNKNOWN_OBJECT_NAME),
            (connection.explain_open("Q", for_="nothing", as_user="bob"), MQRC.OPTIONS_ERROR),
            (connection.explain_open("Q" * 49, for_="put", as_user="bob"), MQRC.UNKNOWN_OBJECT_NAME),
            (connection.explain_open("Q", for_="put", as_user="b" * 300), MQRC.OPTIONS_ERROR),
            (connection.explain_connect("bob", from_="localhost"), MQRC.OPTIONS_ERROR),
            (connection.explain_connect("bob", from_="::1", subject="nobody"), MQRC.SSL_PEER_NAME_ERROR),
        ):
            with pytest.raises(MQError) as refused:
                await call
            assert refused.value.reason == reason
