"""The lines of a program to one queue manager, where one does not take all of its connections.

A channel lets so many conversations share a line (SHARECNV), and a listener so many in all; one more is refused with
MAX_CONNS_LIMIT_REACHED (2025). So is one more of a user that has as many connections as it may (MAXCONNS), on any line.
The two are told apart by a line that is new: a first conversation that is refused there is not refused for the others
on it. So a call for a connection dials one line at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from broker.client.reaching import DIAL_SECONDS, not_answered
from broker.interface.port import answer
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.client.calls import RemoteConnect
    from broker.client.line import Line
    from broker.client.port import RemotePort


class LinePool:
    """Those lines, in the order in which they were dialled. Calls for connections that one of them has refused are made
    here, one after the other: on another one that has room, or on a new one.
    """

    def __init__(self, first: Line) -> None:
        assert first.dial_another is not None
        self._lines = [first]
        self._dial = first.dial_another
        self._clock = first.clock
        self._waiting: deque[RemoteConnect] = deque()
        self._task: asyncio.Task[None] | None = None

    def connect(self, call: RemoteConnect) -> None:
        """Make a call that its line has refused, on another one. It fails with what that line, or its dial, is refused
        with.
        """
        self._waiting.append(call)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"connect to {call.line.where}")

    def abort(self, why: str) -> None:
        """Break them all."""
        for line in self._lines:
            line.abort(why)

    async def _run(self) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            if call.done():
                continue
            making = asyncio.get_running_loop().create_task(self._make(call), name=f"line to {call.line.where}")
            call.add_done_callback(partial(_end, making))
            try:
                await asyncio.wait((making,))
            except asyncio.CancelledError:
                for each in (call, *self._waiting):
                    each.cancel()
                raise
            if not call.done():  # its dial was ended
                call.failed(not_answered(call.line.where, DIAL_SECONDS))

    async def _make(self, call: RemoteConnect) -> None:
        try:
            port = await self._on_one_with_room(call) or await self._on_a_new_one(call)
        except Exception as error:  # also of the function that gives the secret
            if not call.done():
                call.set_exception(error)
        else:
            call.answered(port)

    async def _on_one_with_room(self, call: RemoteConnect) -> RemotePort | None:
        """Return a conversation on a line that there is, None where all are full."""
        self._lines = [line for line in self._lines if not line.broken]
        for line in [line for line in self._lines if not line.full]:
            try:
                return await _conversation(line, call)
            except MQError as error:
                if error.reason == MQRC.MAX_CONNS_LIMIT_REACHED:
                    line.full = True
                elif not line.broken:
                    raise
        return None

    async def _on_a_new_one(self, call: RemoteConnect) -> RemotePort:
        task = asyncio.current_task()
        assert task is not None
        timer = self._clock.call_later(DIAL_SECONDS, partial(_end, task))
        try:
            line = await self._dial()
        finally:
            timer.cancel()
        line.pool = self
        self._lines.append(line)
        try:
            return await _conversation(line, call)
        except MQError as error:
            if error.reason == MQRC.MAX_CONNS_LIMIT_REACHED:
                for each in self._lines:
                    each.full = False  # that was not why
            raise


async def _conversation(line: Line, call: RemoteConnect) -> RemotePort:
    """The conversation that a call asks for, on this line. Raises MQError."""
    wanted = call.port
    return cast("RemotePort", await answer(line.converse_here(wanted.q_mgr_name, wanted.appl_name, wanted.user)))


def _end(task: asyncio.Task[None], ended: object = None) -> None:
    """End a task, for nobody waits for it any more, or for long enough."""
    task.cancel()
