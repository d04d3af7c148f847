"""`evermq demo --database`: real processes that are killed at each step of a transaction, and an account of all orders.

The same rig has the acceptance of transactions, with a hundred deaths at each place.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.cli import main
from broker.cli.demo.transactions.account import TransactionAccount
from broker.cli.demo.transactions.death import Death, DeathPlace, Mortal, drawn
from broker.cli.demo.transactions.task import WorkerTask
from broker.cli.demo.transactions.trial import KillTrial, TrialPlan
from broker.transactions import TransactionStep
from tests.cli.conftest import command, environment
from tests.sharing.postgres import OWNER, Postgres

PROGRAM = "broker.cli.demo.transactions.program"
on_both = pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])


def address(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The database of orders."""
    if kind == "sqlite":
        return str(folder / "orders.db")
    postgres: Postgres = request.getfixturevalue(kind)
    return postgres.dsn()


def shown(folder: Path, *words: str, **variables: str) -> str:
    """The accounts of a demonstration that is exact, in one line."""
    done = subprocess.run(
        command("demo", *words),
        capture_output=True,
        env=environment(TMPDIR=str(folder), **variables),
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if len(line) > 100] == []
    assert list(folder.iterdir()) == []
    return " ".join(done.stdout.split())


# The command


def test_d8_1_each_order_is_a_row_and_two_messages_in_sqlite_whoever_dies(tmp_path: Path) -> None:
    report = shown(tmp_path, "--database", "--kills", "14", "--seed", "8")
    assert_accounts(report, 14)
    assert "a row in SQLite (in a temporary folder)" in report


@pytest.mark.postgres
def test_d8_1_and_in_postgresql_where_nothing_is_left_behind(tmp_path: Path, postgres: Postgres) -> None:
    words = ("--database", "--kills", "14", "--seed", "8")
    assert_accounts(shown(tmp_path, *words, EVERMQ_DATABASE=postgres.dsn()), 14)
    assert postgres.sql("SELECT relname FROM pg_class WHERE relname LIKE 'evermq_demo%'", database=OWNER) == []


@on_both
def test_d8_1_sixty_die_as_the_command_has_it(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    told = {} if kind == "sqlite" else {"EVERMQ_DATABASE": address(kind, tmp_path, request)}
    assert_accounts(shown(tmp_path, "--database", **told), 60)


def assert_accounts(report: str, kills: int) -> None:
    """Both have had their deaths; the first is exact, the other has doubled."""
    ours, by_hand = report.split("the same by hand")
    each = kills // len(DeathPlace)
    for account in (ours, by_hand):
        assert f"workers killed {kills} begin " in account
        assert all(
            int(count) >= each for count in re.findall(r"(?:begin|work|mark|prepare|commit|decide) (\d+)", account)
        )
        assert "daemon killed 2" in account
    assert re.search(r"orders 200 rows 200 messages 400 two an order lost 0 doubled 0 decided", ours)
    assert "in doubt 0 markers left 0 " in ours
    assert "with database= each of 200 orders is one row and two messages" in by_hand
    assert re.search(r"by hand, of 200 orders: [1-9]\d* doubled, 0 lost$", by_hand)


def test_a_password_among_the_arguments_is_refused_and_not_printed() -> None:
    result = CliRunner().invoke(main, ["demo", "--database", "postgresql://me:s3cret@host/orders"])
    assert result.exit_code == 20
    assert "EVERMQ_DATABASE" in result.output
    assert "s3cret" not in result.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--dsn-file", "x"), "--dsn-file is for --database"),
        (("--database", "no-such.db"), "there is no such file"),
        (("--database", "mysql://me@host/x"), "the DSN is no postgresql://"),
        (("--database", "a.db", "--dsn-file", "b"), "give one of them"),
        (("--database", "a.db", "--keep", "b"), "takes no FILE"),
    ],
)
def test_what_cannot_be_shown_is_one_line(words: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(main, ["demo", *words], env={"EVERMQ_DATABASE": None})
    assert result.exit_code == 20
    assert text in result.output


# The guards


@on_both
@pytest.mark.parametrize("guard", ["marker", "prepare"])
async def test_d8_2_without_a_guard_the_account_is_not_exact(
    guard: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    plan = TrialPlan(
        target=f"tests.transactions.without_{guard}:exact",
        address=address(kind, tmp_path, request),
        orders=40,
        kills=14,
        seed=8,
        server_kills=0,
        stall=5.0,
    )
    account = await KillTrial(plan).run(tmp_path)
    assert account.died.total() == 14
    assert not account.exact
    assert account.doubled


# Its parts


def test_deaths_are_drawn_from_a_seed_as_many_at_each_place() -> None:
    deaths = list(drawn(700, 1))
    assert deaths == list(drawn(700, 1)) != list(drawn(700, 2))
    assert Counter(death.place for death in deaths) == dict.fromkeys(DeathPlace, 100)
    assert {death.skipped for death in deaths} == {0, 1, 2}
    assert len(list(drawn(10, 1))) == 10


async def test_a_process_dies_at_its_place_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    died: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: died.append(number))
    monkeypatch.setattr(os, "write", lambda fd, data: len(data))
    mortal = Mortal(Death(DeathPlace.MARK, skipped=1))
    for step in (*TransactionStep, TransactionStep.BEGIN, TransactionStep.WORK):
        await mortal.reached(step)
    assert died == []
    await mortal.reached(TransactionStep.MARK)
    assert died == [9]


def test_a_worker_reads_what_it_is_told_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert WorkerTask.read() == WorkerTask()
    told = WorkerTask(address="postgresql://me:s3cret@host/x", table="t", death=Death(DeathPlace.IN_COMMIT, 2, 0.1))
    told.write(tmp_path)
    assert (tmp_path / "task.json").stat().st_mode & 0o077 == 0
    assert WorkerTask.read() == told


def account(**changes: object) -> TransactionAccount:
    once = Counter({1: 1, 2: 1})
    right = {"kills": 0, "orders": 2, "rows": once, "messages": (once, once)}
    return TransactionAccount(**{**right, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "lost", "doubled"),
    [
        ({"rows": Counter({1: 1})}, [2], []),
        ({"messages": (Counter({1: 1, 2: 1}), Counter({2: 1}))}, [1], []),
        ({"rows": Counter({1: 2, 2: 1})}, [], [1]),
        ({"rows": Counter({1: 1, 2: 1, 3: 1})}, [], []),
        ({"waiting": 1}, [], []),
        ({"in_doubt": 1}, [], []),
        ({"markers": 1}, [], []),
        ({"kills": 1}, [], []),
    ],
)
def test_an_account_is_exact_only_if_nothing_is_lost_doubled_or_left(
    changes: dict[str, object], lost: list[int], doubled: list[int]
) -> None:
    assert account().exact
    wrong = account(**changes)
    assert not wrong.exact
    assert (wrong.lost, wrong.doubled) == (lost, doubled)


# The acceptance: `pytest -m slow tests/transactions/test_demo.py`

DEATHS = 100 * len(DeathPlace)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@on_both
@pytest.mark.parametrize(
    ("target", "kills"),
    [(f"{PROGRAM}:exact", DEATHS), ("tests.transactions.producers:app", DEATHS), (f"{PROGRAM}:by_hand", 70)],
    ids=["handler", "producer", "by hand"],
)
async def test_d1_1_and_d1_2_and_d4_8_a_hundred_deaths_at_each_place_lose_and_double_nothing(
    target: str, kills: int, kind: str, request: pytest.FixtureRequest
) -> None:
    seed = random.randrange(1_000_000)
    sys.stdout.write(f"{target} over {kind}: seed {seed}\n")
    by_hand = target.endswith(":by_hand")
    folder = Path(tempfile.mkdtemp(prefix="evermq-demo-"))  # which later runs of pytest leave alone
    plan = TrialPlan(
        target=target,
        address=address(f"durable_{kind}" if kind == "postgres" else kind, folder, request),
        orders=3 * kills,
        kills=kills,
        seed=seed,
        server_kills=10,
        has_units=not by_hand,
        stall=90.0,
    )
    trial = KillTrial(plan)
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("durable_postgres")
        for turn in range(1, 6):
            trial.events[turn * kills // 6] = lambda: asyncio.to_thread(server.restart, "immediate")
    account = await trial.run(folder)
    sys.stdout.write("\n".join([*account.report(), *account.report_units(), ""]))
    assert account.died == dict.fromkeys(DeathPlace, kills // len(DeathPlace))
    assert account.server_kills == 10
    assert account.exact is not by_hand
    assert bool(account.doubled) is by_hand
    shutil.rmtree(folder)
