"""`docs/scripts/peers_deaths.py`: the kills that it draws, what it counts, and, where they are installed, its peers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.cli.demo.transactions.account import TransactionAccount
from broker.cli.program import CannotRunError
from tests.scripts import SCRIPTS, script
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

deaths = script("peers_deaths")
ways = script("peers_deaths_ways")
work = script("peers_deaths_work")
BY_NAME = {way.name: way for way in ways.WAYS}
PLACES = list(work.KillPlace)


# The kills


def test_deaths_are_as_many_at_each_place_whole_and_alone_from_a_seed() -> None:
    plan = list(deaths.drawn(80, 1))
    assert plan == list(deaths.drawn(80, 1)) != list(deaths.drawn(80, 2))
    each = Counter((death.place, death.whole) for death in plan)
    assert each == {(place, whole): 10 for place in PLACES for whole in (True, False)}
    assert {death.skipped for death in plan} == {0, 1, 2}


@pytest.mark.parametrize(
    ("whole", "killed"), [(True, [("group", 0), ("process", os.getpid())]), (False, [("process", os.getpid())])]
)
def test_a_worker_dies_at_its_place_behind_those_that_pass_and_no_second_time(
    whole: bool, killed: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[Any] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: died.append(("group", group)))
    monkeypatch.setattr(os, "kill", lambda process, number: died.append(("process", process)))
    monkeypatch.setattr(work, "_passed", Counter())
    monkeypatch.chdir(tmp_path)
    work.PeerDeath(work.KillPlace.COMMITTED, 1, whole).write(tmp_path)
    for place in (*PLACES, work.KillPlace.BEFORE):
        work.reached(place)
    assert died == []
    work.reached(work.KillPlace.COMMITTED)
    assert died == killed
    work.reached(work.KillPlace.COMMITTED)
    assert died == killed
    assert list(tmp_path.iterdir()) == []


class OneLine:
    """A system whose worker is one line of Python."""

    def __init__(self, folder: Path, line: str) -> None:
        self.folder = folder
        self.worker = ["-c", line]


def killed_worker(folder: Path, line: str, *plan: Any) -> Any:
    return deaths.KilledWorker(0, OneLine(folder, line), work.PeerTask(dsn=""), deque(plan))


DIES = "from peers_deaths_work import KillPlace, reached; reached(KillPlace.BEFORE)"


def test_a_worker_that_has_died_is_counted_and_started_again_with_the_next_death(tmp_path: Path) -> None:
    plan = [work.PeerDeath(work.KillPlace.BEFORE), work.PeerDeath(work.KillPlace.WORKED)]
    worker = killed_worker(tmp_path, DIES, *plan)
    worker.look()
    first = worker._process
    assert first.wait() == -signal.SIGKILL
    worker.look()
    assert worker.died == {work.KillPlace.BEFORE: 1}
    assert worker._process is not first
    assert work.DEATH in {path.name for path in (tmp_path / "worker-0").iterdir()}
    worker.kill()


def test_a_worker_that_ends_by_itself_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    worker = killed_worker(tmp_path, "raise SystemExit('no such queue')", work.PeerDeath(work.KillPlace.BEFORE))
    worker.look()
    worker._process.wait()
    with pytest.raises(CannotRunError, match="exit code 1: no such queue"):
        worker.look()


def test_a_worker_reads_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = work.PeerTask(dsn="dbname=x", redis="redis://", prefix="p:", keyed=True, together=True)
    assert work.PeerTask.read() == work.PeerTask(dsn="")
    monkeypatch.setenv(work.VARIABLE, told.environment()[work.VARIABLE])
    assert work.PeerTask.read() == told


# The table


def test_a_row_counts_the_lost_and_the_doubled() -> None:
    account = TransactionAccount(
        kills=3, orders=4, rows=Counter({1: 2, 2: 1, 3: 1}), messages=(Counter({1: 1, 2: 2, 4: 1}),), waiting=1
    )
    way = BY_NAME["EverMQ, `database=`"]
    assert deaths.row_of(way, account) == [way.name, "3", "4", "4", "4", "2", "2", "1", "`database=`"]


def test_what_is_not_installed_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    celery, procrastinate = BY_NAME["Celery on Redis"], BY_NAME["procrastinate"]
    monkeypatch.setattr(ways, "version_of", lambda name: None if name in ("celery", "redis") else "1")
    assert deaths.skipped(celery, "redis://") == "Celery on Redis: left out, celery, redis not installed"
    assert deaths.skipped(procrastinate, "") == ""
    monkeypatch.setattr(ways, "version_of", lambda name: "1")
    assert deaths.skipped(celery, "") == "Celery on Redis: left out, no --redis"
    assert deaths.skipped(celery, "redis://") == ""


def test_a_password_among_the_arguments_is_refused_and_not_printed() -> None:
    pytest.importorskip("psycopg", reason="it comes with the extra `full`")
    done = shown("postgresql://me:s3cret@host/orders")
    assert done.returncode != 0
    assert "EVERMQ_DATABASE" in done.stderr
    assert "s3cret" not in done.stderr


def shown(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script, run as a person runs it."""
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "peers_deaths.py"), *words],
        capture_output=True,
        env={**os.environ, **variables},
        text=True,
        check=False,
    )


# The peers themselves: `pytest -m slow tests/transactions/test_peers_deaths.py`

EXACT = {"EverMQ, `database=`", "procrastinate, `connection=`, keyed rows"}
KILLS = 8


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of its own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    socket = tmp_path / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert any("ready to accept connections" in line.lower() for line in server.stdout)
    yield f"redis+socket://{socket}"
    server.terminate()
    server.communicate()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("peer", ["Celery", "procrastinate", "EverMQ"])
def test_each_order_is_there_once_where_all_is_one_transaction_or_keyed_by_hand_and_else_some_are_doubled(
    peer: str, postgres: Postgres, request: pytest.FixtureRequest
) -> None:
    redis = request.getfixturevalue("redis_url") if peer == "Celery" else ""
    chosen = [way for way in ways.WAYS if peer in way.name]
    for package in {name for way in chosen for name in way.missing}:
        pytest.skip(f"{package} is not installed")
    words = ["--kills", str(KILLS), "--orders", "24", "--only", peer, "--redis", redis]
    done = shown(*words, EVERMQ_DATABASE=postgres.dsn())
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.split(" | ")] for line in done.stdout.splitlines()[4:]]
    assert [row[0].lstrip("| ") for row in rows] == [way.name for way in chosen]
    for way, (_, killed, orders, _, _, lost, doubled, waiting, _) in zip(chosen, rows, strict=True):
        assert (killed, waiting) == (str(KILLS), "0")
        assert int(orders) >= 24
        assert (doubled == "0") is (way.name in EXACT)
        if peer != "Celery":  # whose worker pops a task, and then notes that it has it: it may die between the two
            assert lost == "0"
    assert postgres.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'evermq_deaths%'", database=OWNER) == []
    if redis:
        keys = subprocess.run(["redis-cli", "-s", redis.removeprefix("redis+socket://"), "dbsize"], capture_output=True)
        assert keys.stdout.split() == [b"0"]
