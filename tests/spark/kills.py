"""Exactly once with real kills: `python -m tests.spark.kills --kills 6`.

A daemon on disk, a producer and a rival getter with ledger files of their own, and a driver of Spark that archives one
queue to Parquet and moves another to a third. SIGKILL takes the driver, its JVM and the daemon at moments of a seed's
choice, each so many times. In the end all is drained, and each message is counted: none is lost, none is doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.spark.daemons import Daemon
from tests.spark.pipeline import DRAIN
from tests.spark.traffic import ARCHIVED, MOVED, TARGET, Producer, Rival, Units, judge, name_of

ROOT = Path(__file__).parents[2]
VICTIMS = ("daemon", "driver", "jvm")
PATIENCE = 120.0  # seconds for a batch to come, or a process to end
TICK = 0.05
FAILURES = 3
"""How often Spark may end a driver: a query that starts beside another can spoil a task of that (Spark 4.3: the map of
environment variables is changed while it is written).
"""


class Account(NamedTuple):
    """The account of a run: how many messages where, how often who was killed, what is wrong, and the seconds."""

    figures: dict[str, int]
    kills: Counter[str]
    complaints: list[str]
    seconds: float


class Driver:
    """The driver in a process of its own, started again and again. `batches` are how many its queries have done."""

    def __init__(self, folder: Path, url: str) -> None:
        self.failures = 0  # how often it has ended by itself
        self._folder = folder
        self._url = url
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []
        self._log = (folder / "driver.log").open("ab")

    def start(self) -> None:
        (self._folder / "state.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.spark.pipeline", str(self._folder), self._url]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=self._log, stderr=self._log, start_new_session=True
        )
        self._groups.append(self._process.pid)

    @property
    def state(self) -> dict[str, Any]:
        """The state that it writes of itself; nothing before its queries run."""
        with suppress(FileNotFoundError):
            state: dict[str, Any] = json.loads((self._folder / "state.json").read_text())
            return state
        return {}

    async def progress(self, batches: int) -> None:
        """Return when each of its queries has done so many batches more. A driver that Spark has ended is started
        again, a few times.
        """
        began: list[int] | None = None
        deadline = time.monotonic() + PATIENCE
        while began is None or any(now < then + batches for now, then in zip(self._batches, began, strict=True)):
            began = began or self._batches or None
            assert self._process is not None
            if self._process.poll() is not None:
                self.failures += 1
                assert self.failures <= FAILURES, f"drivers end by themselves:\n{self._tail()}"
                self.start()
                began = None
            assert time.monotonic() < deadline, f"no batch has come:\n{self._tail()}"
            await asyncio.sleep(TICK)

    async def succeeds(self) -> None:
        """Let it take all that is left, and end in order."""
        (self._folder / DRAIN).touch()
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"the driver does not end:\n{self._tail()}"
            await asyncio.sleep(TICK)
        assert self._process.returncode == 0, f"the last driver has failed:\n{self._tail()}"

    async def kill(self, victim: str) -> None:
        """SIGKILL for the driver, whose JVM then ends when it notices, or for the JVM, whose driver may notice."""
        assert self._process is not None
        os.kill(self.state[victim], signal.SIGKILL)
        if victim == "jvm":
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, 1)
            self._process.kill()
        await asyncio.to_thread(self._process.wait, PATIENCE)

    def end(self) -> None:
        """End all processes of all drivers."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._log.close()

    @property
    def _batches(self) -> list[int]:
        return list(self.state.get("batches", ()))

    def _tail(self) -> str:
        return "\n".join((self._folder / "driver.log").read_text(errors="replace").splitlines()[-40:])


async def run(folder: Path, kills: int, seed: int) -> Account:
    """Kill each of them so many times, in an order of the seed's choice."""
    began = time.monotonic()
    random = Random(seed)
    victims = list(VICTIMS) * kills
    if kills > 1:
        random.shuffle(victims)
    with Daemon(folder / "data") as daemon:
        names = (ARCHIVED, MOVED, TARGET)
        daemon_call = asyncio.to_thread
        await daemon_call(daemon.mqsc, *(f"DEFINE QLOCAL({name}) MAXDEPTH(999999) DEFPSIST(YES)" for name in names))
        driver = Driver(folder, daemon.url)
        producer = Producer(daemon.url, folder / "put.ledger", seed)
        rival = Rival(daemon.url, folder / "taken.ledger", seed + 1)
        try:
            async with asyncio.TaskGroup() as programs:
                tasks = [programs.create_task(producer.run()), programs.create_task(rival.run())]
                driver.start()
                for victim in victims:
                    await driver.progress(1)
                    await asyncio.sleep(random.random())
                    await _kill(victim, daemon, driver, random)
                await driver.progress(1)
                producer.running = rival.running = False
                await asyncio.wait(tasks)
            await driver.succeeds()
        finally:
            producer.running = rival.running = False
            driver.end()
        left = {name: [name_of(body) for body in await daemon_call(daemon.bodies, name)] for name in names}
        depths = {name: await daemon_call(daemon.depth, name) for name in names}
    return _account(folder, left, depths, Counter(victims), time.monotonic() - began)


async def _kill(victim: str, daemon: Daemon, driver: Driver, random: Random) -> None:
    if victim == "daemon":
        await asyncio.to_thread(daemon.end, signal.SIGKILL)
        await asyncio.sleep(random.random())
        await asyncio.to_thread(daemon.start)
    else:
        await driver.kill(victim)
        driver.start()


def _account(
    folder: Path, left: dict[str, list[str]], depths: dict[str, int], kills: Counter[str], seconds: float
) -> Account:
    put, taken = Units(folder / "put.ledger"), Units(folder / "taken.ledger")
    archived = json.loads((folder / "archived.json").read_text())
    complaints = judge(put, taken, {"archive": archived, **left})
    complaints += [f"{name} counts {depth} messages" for name, depth in depths.items() if depth != len(left[name])]
    figures = {
        "put": sum(map(len, put.done)),
        "put, perhaps": sum(map(len, put.doubtful)),
        "archived": len(archived),
        "taken by the rival": sum(map(len, taken.done)),
        "taken, perhaps": sum(map(len, taken.doubtful)),
        "moved": len(left[TARGET]),
        "left": len(left[ARCHIVED]) + len(left[MOVED]),
    }
    return Account(figures, kills, complaints, seconds)


def main() -> int:
    """The command: 0 when nothing was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=6, help="of each: driver, JVM and daemon")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="evermq-kills-"))
    account = asyncio.run(run(folder, options.kills, options.seed))
    for name, count in (*account.figures.items(), *account.kills.items()):
        sys.stdout.write(f"{count:10} {name}\n")
    sys.stdout.writelines(f"{complaint}\n" for complaint in account.complaints[:20])
    sys.stdout.write(f"{len(account.complaints)} complaints, {account.seconds:.0f} s\n")
    if not account.complaints:
        shutil.rmtree(folder)
    return bool(account.complaints)


if __name__ == "__main__":
    sys.exit(main())
