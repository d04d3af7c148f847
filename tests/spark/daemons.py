"""A daemon in a process of its own, as the processes of Spark reach it, and calls on it from plain code."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import broker
from broker.mqi import MQGMO, MQOO, MQError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from broker import Connection, Message
    from broker.mqi import MessageDescriptor

T = TypeVar("T")


class Daemon:
    """`evermq run` on a data directory; the port of the first start is that of all."""

    def __init__(self, data: Path, name: str = "QM1") -> None:
        self._data = data
        self._name = name
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"mq://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    def start(self) -> None:
        """Start it, and return when it can be reached."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
        environment |= {
            "EVERMQ_QUEUE_MANAGER_NAME": self._name,
            "EVERMQ_QUEUE_MANAGER_DATA": str(self._data),
            "EVERMQ_LISTENER_PORT": str(self._port),
            "EVERMQ_TRIGGER_MONITOR_ENABLED": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "broker", "run"], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for text in self._process.stderr:
            if found := re.search(r" ready on 127\.0\.0\.1:(\d+)", text):
                self._port = int(found[1])
                return
        raise AssertionError("the daemon did not start")

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it: at once, or in order."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(30)
            assert process.stderr is not None
            process.stderr.close()

    def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.end(number)
        self.start()

    def call(self, make: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of `make` with a connection."""

        async def called() -> T:
            async with broker.connect(self.url) as connection:
                return await make(connection)

        return asyncio.run(called())

    def mqsc(self, *commands: str) -> list[Any]:
        """Run commands, which all succeed: their replies."""
        return self.call(lambda connection: connection.mqsc("\n".join(commands), check=True))

    def put(self, q_name: str, *bodies: bytes | tuple[bytes, MessageDescriptor | None]) -> None:
        """Put these messages, in order."""

        async def put(connection: Connection) -> None:
            async with connection.open(q_name, MQOO.OUTPUT) as queue:
                await queue.put_many(bodies)

        self.call(put)

    def messages(self, q_name: str) -> list[Message]:
        """All messages that a getter would be given, in order; they stay."""

        async def browse(connection: Connection) -> list[Message]:
            async with connection.open(q_name, MQOO.BROWSE) as queue:
                found: list[Message] = []
                with suppress(MQError):  # NO_MSG_AVAILABLE, in the end
                    while True:
                        found += await queue.get_many(256, options=MQGMO.BROWSE_NEXT)
                return found

        return self.call(browse)

    def bodies(self, q_name: str) -> list[bytes]:
        return [message.data for message in self.messages(q_name)]

    def depth(self, q_name: str) -> int:
        (reply,) = self.mqsc(f"DISPLAY QLOCAL({q_name}) CURDEPTH")
        depth: int = reply.attributes[0]["CURDEPTH"]
        return depth


def numbered(count: int, first: int = 0) -> Iterable[bytes]:
    """So many bodies that differ."""
    return [b"%06d" % number for number in range(first, first + count)]
