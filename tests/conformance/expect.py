"""Expectations of scenarios about calls, in MQ's words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQOO, MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from broker import Connection, Queue

ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE | MQOO.INQUIRE | MQOO.SET


def name_of(text: str) -> bytes:
    """A 24-byte identifier that shows `text`."""
    return text.encode().ljust(24, b".")


@contextmanager
def fails(reason: MQRC) -> Iterator[pytest.ExceptionInfo[MQError]]:
    """The call inside raises this reason."""
    with pytest.raises(MQError) as caught:
        yield caught
    assert caught.value.reason == reason


@contextmanager
def inside_unit(connection: Connection) -> Iterator[None]:
    """As inside `unit_of_work()`, but without the end of it, which is the test's."""
    connection.unit = unit = connection.unit_of_work()
    unit.join()
    try:
        yield
    finally:
        unit.end()


async def reason_of(call: Awaitable[object]) -> MQRC | int:
    """The reason with which the call fails, or NONE."""
    try:
        await call
    except MQError as error:
        return error.reason
    return MQRC.NONE


async def drained(queue: Queue) -> list[bytes]:
    """Get all that is there."""
    found = []
    while True:
        try:
            found.append((await queue.get()).data)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found


async def browsed(queue: Queue) -> list[bytes]:
    """Browse all that is there, from the start."""
    found = []
    step = MQGMO.BROWSE_FIRST
    while True:
        try:
            found.append((await queue.get(options=step)).data)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found
        step = MQGMO.BROWSE_NEXT
