"""AUTHENTICATE at a queue manager whose users have no passwords."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import connect
from broker.interface.port import answer
from broker.mqi import MQRC, MQError
from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from broker import Connection, QueueManager


async def refused(connection: Connection) -> None:
    with pytest.raises(MQError, match="this queue manager checks no passwords yet") as raised:
        await answer(connection.port.authenticate(CredentialKind.TOKEN, b"canary"))
    assert raised.value.reason == MQRC.NOT_AUTHORIZED
    assert "canary" not in str(raised.value)


async def test_a_proof_of_the_user_is_refused_and_the_connection_goes_on(manager: QueueManager, url: str) -> None:
    async with manager.connect() as connection:
        await refused(connection)
    async with connect(url) as connection:
        await refused(connection)
        assert (await connection.status())["name"] == "QM1"
