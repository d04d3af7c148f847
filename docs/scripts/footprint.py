"""The memory of the daemon, its restart and the start of commands: checkouts beside each other, by turns, in one run.

    python docs/scripts/footprint.py [CHECKOUT ...] [--runs 5] [--messages 100000] [--commands 10] [--waiters 1000]

A checkout is a folder with the packages `broker` and `triggers`; without one it is that of this script. All run in this
Python, with the packages that it has installed. The last column is the second checkout divided by the first, and so on
for each that is named.

- idle MiB: what the daemon occupies when it is ready (VmRSS), with nothing set but where its data is; idle peak, the
  most it has occupied until then (VmHWM).
- filled MiB: with so many persistent messages of 2 KiB queued, when it is at rest again; just filled, when the last of
  them has been acknowledged; filled peak, the most it has occupied (VmHWM).
- recovery CPU ms: processor time of a daemon (user + system), from its start after `kill -9` to the first message got;
  recovery ms is the time on the clock. Recovered MiB: what it then occupies.
- waiters CPU ms: processor time of a daemon whose waiting gets, one on each of so many queues, get a message each;
  waiters ms is the time on the clock.
- `evermq ...` CPU ms: processor time of a command, from its start to its end; medians of all its runs.

Bytecode is written and kept, however the environment is set. Everything is done once before it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

QUEUE: Final = "FOOTPRINT"
BODY: Final = bytes(2048)
COMMANDS: Final = (("--version",), ("--help",), ("put", QUEUE, "text"), ("status",))

_LOOK_SECONDS: Final = 0.5
_STILL_MS: Final = 20.0
"""A daemon that takes no more processor time than this between two looks is at rest."""

Figures = dict[str, list[float]]


# What runs in a checkout: a program of its own, which finds that checkout's packages


async def fill(url: str, count: int) -> None:
    import broker
    from broker.mqi import MQOO

    async with broker.connect(url) as connection:
        await connection.mqsc(f"DEFINE QLOCAL({QUEUE}) DEFPSIST(YES) MAXDEPTH(999999999)")
        async with connection.open(QUEUE, MQOO.OUTPUT) as queue:
            await queue.put_many(BODY for _ in range(count))


async def get_first(url: str, _: int) -> None:
    import broker
    from broker.mqi import MQOO

    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
        assert message.data == BODY
        print(time.monotonic(), flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def wait_on_all(url: str, count: int) -> None:
    """Gets that wait on all queues, under syncpoint, and puts to all, when told to; how long that took."""
    import broker
    from broker.mqi import MQGMO, MQOO, GetMessageOptions

    waiting = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=-1)
    async with broker.connect(url) as getter, broker.connect(url) as putter:
        names = [f"{QUEUE}.{number}" for number in range(count)]
        getting = [await getter.open(name, MQOO.INPUT_SHARED | MQOO.INQUIRE) for name in names]
        putting = [await putter.open(name, MQOO.OUTPUT) for name in names]
        news = asyncio.Event()
        arrived = 0

        async def get(queue: Any) -> None:
            nonlocal arrived
            await queue.get(None, waiting)
            arrived += 1
            news.set()

        async with asyncio.TaskGroup() as tasks:
            for queue in getting:
                tasks.create_task(get(queue))
            await asyncio.sleep(0)
            await getting[-1].inquire(broker.mqi.MQIA.CURRENT_Q_DEPTH)  # answered when all gets have been made
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            begun = time.monotonic()
            puts = iter(putting)

            async def put() -> None:
                for queue in puts:
                    await queue.put(BODY[:256])

            putters = [tasks.create_task(put()) for _ in range(256)]
            while arrived < count:
                await news.wait()
                news.clear()
                await getter.commit()
            took = time.monotonic() - begun
            await asyncio.gather(*putters)
        print(took, flush=True)
        await asyncio.to_thread(sys.stdin.readline)


PROGRAMS: Final[dict[str, Callable[[str, int], Awaitable[None]]]] = {
    each.__name__: each for each in (fill, get_first, wait_on_all)
}


# What measures


class Checkout:
    """The packages in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.figures: Figures = defaultdict(list)
        if not (self.path / "broker").is_dir():
            raise SystemExit(f"{path}: there is no package broker in this folder")

    @property
    def name(self) -> str:
        """The name for tables: its folder, and its commit where git tells."""
        reported = subprocess.run(
            ["git", "-C", str(self.path), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        )
        return f"{self.path.name} {reported.stdout.strip()}".strip()

    def environment(self, **settings: str) -> dict[str, str]:
        """The environment of its processes: nothing is set but this, and bytecode is kept."""
        left_out = ("EVERMQ_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return {**kept, "PYTHONPATH": str(self.path), **settings}

    def note(self, name: str, value: float) -> None:
        """One more value of a figure."""
        self.figures[name].append(value)

    @contextmanager
    def client(self, program: str, url: str, count: int) -> Iterator[subprocess.Popen[str]]:
        """A client of a daemon that runs one of the programs above."""
        with subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--program", program, url, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment(), cwd=tempfile.gettempdir(),
        ) as process:  # fmt: skip
            try:
                yield process
                process.communicate("\n")
            finally:
                process.kill()
        if process.returncode:
            raise SystemExit(f"{self.path}: {program} failed")


class Daemon:
    """`evermq run` of a checkout, all its settings at their defaults but where its data is and where it listens."""

    def __init__(self, checkout: Checkout, folder: Path, definitions: str) -> None:
        startup = {}
        if definitions:
            (folder / "startup.mqsc").write_text(definitions, "utf-8")
            startup["EVERMQ_QUEUE_MANAGER_STARTUP"] = str(folder / "startup.mqsc")
        self._folder = folder
        self._environment = checkout.environment(
            EVERMQ_QUEUE_MANAGER_DATA=str(folder / "data"),
            EVERMQ_LISTENER_PORT="0",
            **startup,
        )
        self._process: subprocess.Popen[str]
        self.url = ""

    def start(self) -> None:
        """Start it, and return when programs can connect."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "broker", "run"],
            stderr=subprocess.PIPE, text=True, env=self._environment, cwd=self._folder,
        )  # fmt: skip
        assert self._process.stderr is not None
        log = ""
        for line in self._process.stderr:
            log += line
            if found := re.search(r" ready on ([\w.:]+)", line):
                self.url = f"mq://{found[1]}"
                return
        raise SystemExit(f"the daemon ended: {log}")

    def kill(self) -> None:
        """SIGKILL; harmless when it does not run."""
        self._process.kill()
        self._process.communicate()

    def rest(self) -> None:
        """Wait until it has nothing more to do: its processor time stands nearly still."""
        before = -math.inf
        while (now := self.processor_ms) > before + _STILL_MS:
            before = now
            time.sleep(_LOOK_SECONDS)

    @property
    def processor_ms(self) -> float:
        """The processor time that it has taken, of all its threads."""
        from broker.benchmarks.daemon import processor_seconds  # which a checkout that is measured may lack

        return processor_seconds(self._process.pid) * 1000

    def mib(self, name: str) -> float:
        """A figure of its memory, as the system calls it."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, f"no {name} in /proc"
        return int(found[1]) / 1024


@contextmanager
def running(checkout: Checkout, definitions: str = "") -> Iterator[Daemon]:
    """A daemon in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="evermq-footprint-") as folder:
        daemon = Daemon(checkout, Path(folder), definitions)
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.kill()


def measure_store(checkout: Checkout, messages: int) -> None:
    """Idle, filled, killed and recovered."""
    with running(checkout) as daemon:
        checkout.note("idle MiB", daemon.mib("VmRSS"))
        checkout.note("idle peak MiB", daemon.mib("VmHWM"))
        if not messages:
            return
        with checkout.client("fill", daemon.url, messages):
            pass
        checkout.note("just filled MiB", daemon.mib("VmRSS"))
        daemon.rest()
        checkout.note("filled MiB", daemon.mib("VmRSS"))
        checkout.note("filled peak MiB", daemon.mib("VmHWM"))
        daemon.kill()
        begun = time.monotonic()
        daemon.start()
        with checkout.client("get_first", daemon.url, 1) as client:
            assert client.stdout is not None
            ended = float(client.stdout.readline())
            checkout.note("recovery CPU ms", daemon.processor_ms)
            checkout.note("recovery ms", (ended - begun) * 1000)
            checkout.note("recovered MiB", daemon.mib("VmRSS"))


def measure_waiters(checkout: Checkout, waiters: int) -> None:
    definitions = "".join(f"DEFINE QLOCAL({QUEUE}.{number}) DEFPSIST(YES) REPLACE\n" for number in range(waiters))
    with (
        running(checkout, f"ALTER QMGR MAXHANDS(10000)\n{definitions}") as daemon,
        checkout.client("wait_on_all", daemon.url, waiters) as client,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdout.readline()
        before = daemon.processor_ms
        client.stdin.write("\n")
        client.stdin.flush()
        took = float(client.stdout.readline())
        checkout.note("waiters CPU ms", daemon.processor_ms - before)
        checkout.note("waiters ms", took * 1000)


def measure_commands(checkouts: Sequence[Checkout], times: int) -> None:
    for checkout in checkouts:
        with running(checkout, f"DEFINE QLOCAL({QUEUE}) DEFPSIST(YES) REPLACE\n") as daemon:
            for words in COMMANDS:
                for _ in range(times):
                    checkout.note(f"evermq {words[0]} CPU ms", _processor_ms_of(checkout, words, daemon.url))


def _processor_ms_of(checkout: Checkout, words: Sequence[str], url: str) -> float:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", *words],
        stdout=subprocess.DEVNULL, env=checkout.environment(EVERMQ_URL=url), cwd=tempfile.gettempdir(),
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{checkout.path}: evermq {' '.join(words)} failed")
    return (used.ru_utime + used.ru_stime) * 1000


def table(checkouts: Sequence[Checkout]) -> Iterator[str]:
    """A line for each figure: the medians, and what they are beside the first."""
    first, *others = checkouts
    yield "| | " + " | ".join([each.name for each in checkouts] + [f"{each.name} / first" for each in others]) + " |"
    yield "| --- |" + " ---: |" * (len(checkouts) + len(others))
    for name in first.figures:
        values = [median(each.figures[name]) for each in checkouts]
        ratios = [f"{value / values[0]:.2f}" for value in values[1:]]
        yield f"| {name} | " + " | ".join([f"{value:,.1f}" for value in values] + ratios) + " |"


def measured(checkouts: Sequence[Checkout], choice: argparse.Namespace) -> None:
    """Measure all, by turns."""
    for run in range(choice.runs + 1):
        for checkout in checkouts:
            print(f"run {run} of {choice.runs}: {checkout.name}", file=sys.stderr)
            measure_store(checkout, choice.messages)
            if choice.waiters:
                measure_waiters(checkout, choice.waiters)
            if run == 0:
                checkout.figures.clear()  # it has written bytecode
    measure_commands(checkouts, 1)
    for checkout in checkouts:
        for words in COMMANDS:
            checkout.figures.pop(f"evermq {words[0]} CPU ms")
    for _ in range(choice.commands):
        measure_commands(checkouts, 1)


def main() -> None:
    if sys.argv[1:2] == ["--program"]:
        _, _, program, url, count = sys.argv
        import uvloop

        uvloop.run(PROGRAMS[program](url, int(count)))  # type: ignore[arg-type]
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[2]])
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured")
    parser.add_argument("--messages", type=int, default=100_000, help="of 2 KiB that are queued; 0: none")
    parser.add_argument("--commands", type=int, default=10, help="how often each command is run")
    parser.add_argument("--waiters", type=int, default=1_000, help="gets that wait; 0: none")
    parser.add_argument("--json", action="store_true", help="print every value, as one JSON object")
    choice = parser.parse_args()
    checkouts = [Checkout(path) for path in choice.checkouts]
    measured(checkouts, choice)
    if choice.json:
        print(json.dumps({str(each.path): each.figures for each in checkouts}))
    else:
        print("\n".join(table(checkouts)))


if __name__ == "__main__":
    main()
