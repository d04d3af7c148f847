"""AUTHENTICATE where nobody has proved anything before."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from broker import connect
from broker.interface.port import answer
from broker.mqi import MQRC, MQError
from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from broker import QueueManager


async def test_a_proof_of_the_owner_is_refused_and_the_connection_goes_on(manager: QueueManager) -> None:
    async with manager.connect() as connection:
        with pytest.raises(MQError, match="not authorized") as raised:
            await answer(connection.port.authenticate(CredentialKind.TOKEN, b"canary"))
        assert raised.value.reason == MQRC.NOT_AUTHORIZED
        assert "canary" not in str(raised.value)
        assert (await connection.status())["name"] == "QM1"


async def test_a_line_that_is_trusted_is_believed(url: str) -> None:
    async with connect(url) as connection:
        assert await answer(connection.port.authenticate(CredentialKind.TOKEN, b"canary")) == inf
