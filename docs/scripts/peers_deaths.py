"""Counts what is lost and doubled in other task queues whose workers are killed, beside EverMQ under the same kills.

    python docs/scripts/peers_deaths.py [postgresql://user@host/database] [--redis redis://host/0] [--kills N]
        [--orders N] [--seed N] [--only WORD]

An order becomes a row in PostgreSQL and a follow-up, a message or job that nobody serves. Two workers do that, each two
orders at a time. They are killed by `kill -9` at the four places of `KillPlace`, as many times at each, drawn from the
seed: in half of them all processes of the worker, in half the one alone that does the work, which is another matter in
Celery, whose workers have more than one. Orders are put as the deaths go on. At last all that is left is handled, and
counted: an order is lost if it has no row or no follow-up, and doubled if it has two of either.

Celery has `acks_late`, `reject_on_worker_lost`, a prefetch of 1 and a short visibility timeout; procrastinate the
periodic task of its documentation that retries stalled jobs. Each is tried as it is, with the order's number as a key
of the rows, and procrastinate with the follow-up in the transaction of the row, which it takes as `connection=`. What
is not installed is left out by name, and Celery where there is no Redis. A DSN with a password comes from
EVERMQ_DATABASE. It works in schemas and under keys of its own, which it removes.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.cli.demo.transactions.account import TransactionAccount
from broker.cli.program import CannotRunError, lone
from broker.cli.program_database import address_of
from broker.cli.signals import handle_signals
from peers_deaths_ways import NODE, SCHEMAS, WAYS, PeerSystem, PeerWay, command_of, version_of
from peers_deaths_work import DEATH, KillPlace, PeerDeath, PeerTask

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES: Final = 2
"""The number of workers that run at a time."""
SKIPPED_MAX: Final = 2
LOOK_SECONDS: Final = 0.1
REST_SECONDS: Final = 3.0
"""The time for which no order waits before all is taken to be handled: one may be between its queue and a worker."""
STALL_SECONDS_MAX: Final = 60.0
"""The time in which nothing goes on before what waits is counted as it is."""
STOP_SECONDS_MAX: Final = 20.0


def drawn(kills: int, seed: int) -> Iterator[PeerDeath]:
    """Deaths from a seed: as many at each place, whole and alone, in a random order."""
    source = random.Random(seed)
    kinds = [(place, whole) for place in KillPlace for whole in (True, False)]
    plan = [kind for _ in range(-(-kills // len(kinds))) for kind in source.sample(kinds, len(kinds))][:kills]
    source.shuffle(plan)
    for place, whole in plan:
        yield PeerDeath(place, source.randint(0, SKIPPED_MAX), whole)


class KilledWorker:
    """A place in which one worker runs after the other, with the next death of the plan."""

    def __init__(self, number: int, system: PeerSystem, task: PeerTask, plan: deque[PeerDeath]) -> None:
        self.died: Counter[KillPlace] = Counter()
        self._folder = system.folder / f"worker-{number}"
        self._folder.mkdir()
        self._command = [word.replace(NODE, f"worker-{number}") for word in command_of(system)]
        self._variables = task.environment()
        self._plan = plan
        self._next: PeerDeath | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Count its death if it has died, and let it live. Raises CannotRunError if it has ended by itself."""
        if self._next is not None and not (self._folder / DEATH).exists():
            self.died[self._next.place] += 1
            self._next = None
        code = None if self._process is None else self._process.poll()
        if code is not None and not (code == -signal.SIGKILL and self.died):
            raise CannotRunError(f"a worker ended with exit code {code}: {self._last_words()}")
        if self._next is None and self._plan:
            self._next = self._plan.popleft()
            self._next.write(self._folder)
        if self._process is None or code is not None:
            self._start()

    def _start(self) -> None:
        packages = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**os.environ, **self._variables, "PYTHONPATH": os.pathsep.join(packages)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _last_words(self) -> str:
        lines = (self._folder / "log").read_text("utf-8", "replace").splitlines()
        return (lines or ["it said nothing"])[-1]

    async def stop(self) -> None:
        """End it in order; at once, if it does not."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(STOP_SECONDS_MAX):
                while process.poll() is None:  # noqa: ASYNC110  # a process has no event
                    await anyio.sleep(LOOK_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End what is left of it."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()


@dataclass(frozen=True, kw_only=True)
class PeerTrial:
    """One way under so many kills."""

    way: PeerWay
    dsn: str
    redis: str
    kills: int
    orders: int
    seed: int
    stall: float = STALL_SECONDS_MAX

    async def run(self) -> TransactionAccount:
        """Run it, in a schema of its own. Raises CannotRunError."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        schema = f"{SCHEMAS}{secrets.token_hex(4)}"
        options = f"{conninfo_to_dict(self.dsn).get('options') or ''} -c search_path={schema}"
        task = PeerTask(
            dsn=make_conninfo(self.dsn, options=options),
            redis=self.redis,
            prefix=f"{schema}:",
            keyed=self.way.keyed,
            together=self.way.together,
        )
        async with await psycopg.AsyncConnection.connect(task.dsn, autocommit=True) as rows:
            await rows.execute(f"CREATE SCHEMA {schema}".encode())
            try:
                await rows.execute(task.table.encode())
                with tempfile.TemporaryDirectory(prefix="evermq-deaths-") as name:
                    async with self.way.kind(self.way, task, rows, Path(name)) as system:
                        return await self._tried(system, task)
            finally:
                with anyio.CancelScope(shield=True):
                    await rows.execute(f"DROP SCHEMA {schema} CASCADE".encode())

    async def _tried(self, system: PeerSystem, task: PeerTask) -> TransactionAccount:
        plan = deque(drawn(self.kills, self.seed))
        workers = [KilledWorker(number, system, task, plan) for number in range(PLACES)]
        try:
            put = await self._go_on(system, workers)
            for worker in workers:
                await worker.stop()
        finally:
            for worker in workers:
                worker.kill()
        rows = await system.rows.execute("SELECT number FROM orders")
        return TransactionAccount(
            kills=sum(worker.died.total() for worker in workers),
            orders=put,
            rows=Counter([row[0] async for row in rows]),
            messages=(await system.follow_ups(),),
            waiting=await system.waiting() + await system.given_up(),
        )

    async def _go_on(self, system: PeerSystem, workers: list[KilledWorker]) -> int:
        """Put orders until all have died and all is handled, or nothing goes on. Return how many were put."""
        put, seen, busy = 0, None, anyio.current_time()
        with anyio.move_on_after(self.stall) as limit:
            while True:
                for worker in workers:
                    worker.look()
                deaths = sum(worker.died.total() for worker in workers)
                waiting = await system.waiting()
                if waiting or deaths < self.kills or put < self.orders:
                    busy = anyio.current_time()
                elif anyio.current_time() - busy > REST_SECONDS:
                    return put
                due = self.orders * (deaths + 1) // (self.kills + 1) - put
                if waiting == 0 and deaths < self.kills:
                    due = max(due, PLACES)
                if due > 0:
                    await system.put(range(put + 1, put + due + 1))
                    put += due
                if (now := (deaths, waiting, put)) != seen:
                    seen, limit.deadline = now, anyio.current_time() + self.stall
                await anyio.sleep(LOOK_SECONDS)
        return put


HEAD: Final = ("", "killed", "orders", "rows", "follow-ups", "lost", "doubled", "not handled", "of the program's own")


def row_of(way: PeerWay, account: TransactionAccount) -> list[str]:
    """Return the row of the table for an account."""
    (follow_ups,) = account.messages
    counts = (
        account.kills,
        account.orders,
        account.rows.total(),
        follow_ups.total(),
        len(account.lost),
        len(account.doubled),
        account.waiting,
    )
    return [way.name, *(f"{count:,}" for count in counts), way.own]


def skipped(way: PeerWay, redis: str) -> str:
    """Return why a way is left out; an empty text where it is not."""
    if way.missing:
        return f"{way.name}: left out, {', '.join(way.missing)} not installed"
    return f"{way.name}: left out, no --redis" if way.kind.needs_redis and not redis else ""


async def tried(first: PeerTrial, only: str) -> bool:
    """Try all ways, and print the table. Return False where EverMQ with `database=` has lost or doubled an order."""
    right = True
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for way in WAYS:
        if only.lower() not in way.name.lower():
            continue
        if reason := skipped(way, first.redis):
            print(reason, file=sys.stderr)
            continue
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle_signals, name="signals")
            account = await replace(first, way=way).run()
            tasks.cancel_scope.cancel()
        print("| " + " | ".join(row_of(way, account)) + " |", flush=True)
        if way.app == "exact":
            right = not (account.lost or account.doubled or account.waiting)
    return right


def versions(dsn: str, redis: str) -> str:
    """Return the versions of all that takes part."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        number = connection.info.server_version
    told: list[tuple[str, Any]] = [("PostgreSQL", f"{number // 10000}.{number % 10000}")]
    if redis and version_of("redis"):
        import redis as client

        with client.Redis.from_url(redis.replace("redis+socket://", "unix://")) as opened:
            told.append(("Redis", opened.info("server")["redis_version"]))
    packages = ("evermq", "celery", "kombu", "procrastinate", "psycopg")
    told += [(name, version_of(name)) for name in packages if version_of(name)]
    return ", ".join(f"{name} {found}" for name, found in told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn", nargs="?")
    parser.add_argument("--redis", default=os.environ.get("REDIS_URL", ""))
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the ways whose name has this word")
    asked = parser.parse_args()
    if version_of("psycopg") is None:
        parser.error("psycopg is not installed: pip install 'evermq[databases]'")
    dsn = address_of(asked.dsn, None)
    if dsn is None:
        parser.error("give the DSN of a PostgreSQL database")
    print(f"{versions(dsn, asked.redis)}; seed {asked.seed}\n")
    trial = PeerTrial(way=WAYS[0], dsn=dsn, redis=asked.redis, kills=asked.kills, orders=asked.orders, seed=asked.seed)
    try:
        right = anyio.run(tried, trial, asked.only)
    except Exception as error:
        cause = lone(error)
        if isinstance(cause, CannotRunError):
            raise SystemExit(f"peers_deaths: {cause}") from error
        raise
    if not right:
        raise SystemExit("EverMQ with database= has lost or doubled an order: please report it, with the seed")


if __name__ == "__main__":
    main()
