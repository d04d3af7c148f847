"""Two queue managers that serve the same queue, and outlive each other.

Run it with `python examples/sharing` (`pip install 'evermq[postgres]'` first): it starts PostgreSQL and two daemons,
and stops them again. With a database of your own: `python examples/sharing postgresql://user@host/database` (it makes a
schema evermq_demo there).
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from postgres import postgres

from broker import Connection, MQError, connect
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, ObjectDescriptor

GROUP = "DEMO"
SECONDS = 60.0


class Member:
    """A queue manager in a process of its own, which can be killed."""

    def __init__(self, name: str, folder: Path, dsn: str) -> None:
        self.name = name
        self._folder = folder / name
        self._folder.mkdir()
        (self._folder / "broker.toml").write_text(
            f'[queue_manager]\nname = "{name}"\ndata = "data"\n'
            '[listener]\nport = 0\nunix = "socket"\n'
            f'[queue_sharing_group]\nname = "{GROUP}"\ndsn = "{dsn}"\n'
        )
        self.url = f"mq+unix://{self._folder / 'socket'}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it is ready."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker", "run", "--config", "broker.toml"], cwd=self._folder, stderr=log
            )
        until = time.monotonic() + SECONDS
        while not (self._folder / "socket").exists():
            if self._process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{self.name} did not start:\n{(self._folder / 'log').read_text()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            (self._folder / "socket").unlink(missing_ok=True)

    def stop(self) -> None:
        """An orderly end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(SECONDS)


async def mqsc(connection: Connection, text: str) -> None:
    for reply in await connection.mqsc(text):
        print(f"   {reply.text.splitlines()[0]}")


async def appears(connection: Connection, name: str, data: bytes) -> float:
    """Get this message from a queue when it is there; how many seconds that took."""
    begun = time.monotonic()
    async with connection.open(name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get(options=MQGMO.NO_SYNCPOINT, wait=SECONDS)
    assert message.data == data, message.data
    return time.monotonic() - begun


async def is_empty(connection: Connection, name: str) -> bool:
    async with connection.open(name, MQOO.BROWSE) as queue:
        try:
            await queue.get(options=MQGMO.BROWSE_FIRST)
        except MQError as error:
            return error.reason == MQRC.NO_MSG_AVAILABLE
    return False


async def show(first: Member, second: Member) -> None:
    """Show a group at work."""
    async with connect(second.url, appl_name="second") as there:
        print("1. A queue that both have: defined at one, known to the other.")
        async with connect(first.url, appl_name="first") as here:
            await mqsc(here, "DEFINE QLOCAL(ORDERS) QSGDISP(SHARED)")
            await here.put1("ORDERS", b"an order")
        seconds = await appears(there, "ORDERS", b"an order")
        print(f"   put at {first.name}, got at {second.name} after {seconds * 1000:.0f} ms")

        print(f"2. {first.name} is killed with a message in its hands, in a unit of work that it never ends.")
        await there.put1("ORDERS", b"an order that must not be lost")
        try:
            async with connect(first.url, appl_name="doomed") as here:
                async with here.open("ORDERS", MQOO.INPUT_SHARED) as queue:
                    await queue.get(options=MQGMO.SYNCPOINT)
                await here.put1("ORDERS", b"what belongs to the same unit of work", options=MQPMO.SYNCPOINT)
                first.kill()
                await here.commit()
        except MQError as error:
            print(f"   its program hears {str(error).partition(':')[0]}")
        seconds = await appears(there, "ORDERS", b"an order that must not be lost")
        print(f"   {second.name} has backed the unit out and got the message, {seconds:.1f} s after the kill")
        print(f"   what had been put in that unit of work is {'gone' if await is_empty(there, 'ORDERS') else 'there'}")

    print(f"3. {first.name} comes back. A message for a queue that only it has goes there without a channel.")
    first.start()
    async with connect(second.url) as there, connect(first.url) as here:
        await mqsc(there, "ALTER QMGR IGQ(ENABLED)")
        await mqsc(here, "DEFINE QLOCAL(INBOX)")
        await there.put1(ObjectDescriptor(object_name="INBOX", object_q_mgr_name=first.name), b"by intra-group queuing")
        seconds = await appears(here, "INBOX", b"by intra-group queuing")
        print(f"   put at {second.name} to (INBOX, {first.name}), got there after {seconds * 1000:.0f} ms")


def main() -> None:
    """Start everything, show it, and stop everything."""
    with ExitStack() as stack:
        dsn = sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evermq-")))
        members = [Member(name, folder, dsn) for name in ("QM1", "QM2")]
        for member in members:
            stack.callback(member.stop)
            member.start()
        asyncio.run(show(*members))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
