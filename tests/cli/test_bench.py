"""`evermq bench`: a measurement from end to end, and what becomes of one that loses a message."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from broker import MQError, QueueManager
from broker.benchmarks import session
from broker.benchmarks.batches import check_numbers
from broker.benchmarks.body import body
from broker.benchmarks.catalog import LIMITS, WORKLOADS
from broker.benchmarks.child import MeasurementError, child
from broker.benchmarks.daemon import DEFINITIONS, QUEUE, in_seconds, processor_seconds
from broker.benchmarks.protection import Protection, protected
from broker.benchmarks.report import Figure, LimitFigure, Report, figure_rows, limit_rows
from broker.benchmarks.workload import FigureUnit, Measured
from broker.benchmarks.workloads.puts import PUT_PIPELINED, put_singly
from broker.cli.bench import _tables as bench_tables
from broker.mqi import MQOO, MQRC
from tests.cli.test_mistakes import the_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from click.testing import Result

    from broker.benchmarks.workload import Trial

    Evermq = Callable[..., Result]


def test_a_figure_comes_with_what_bounds_it_and_its_share(evermq: Evermq) -> None:
    result = evermq("bench", "--quick", "--only", "wake", "--json")
    assert result.exit_code == 0, result.output
    reported = json.loads(result.stdout)
    (figure,) = reported["figures"]
    (limit,) = reported["limits"]
    assert (figure["name"], figure["size"], figure["count"], len(figure["values"])) == ("wake", 256, 100, 1)
    assert (limit["name"], limit["size"]) == ("round-trip", 256)
    assert figure["bound"] == {"by": "round-trip", "value": pytest.approx(limit["median"])}
    assert figure["share"] == pytest.approx(limit["median"] / figure["median"])
    assert reported["machine"]["file system"]
    assert reported["errors"] == []


def test_a_herd_over_tls_has_its_hashes_beside_it_and_no_share_of_anything(evermq: Evermq) -> None:
    result = evermq("bench", "--quick", "--only", "herd-tls", "--json")
    assert result.exit_code == 0, result.output
    reported = json.loads(result.stdout)
    (figure,) = reported["figures"]
    assert (figure["name"], figure["unit"], figure["count"]) == ("herd-tls", "ms", 100)
    assert figure["details"]["hashes"] == 1
    assert figure["details_values"]["hashes"] == [1]
    assert (figure["bound"], figure["share"]) == (None, None)
    assert (reported["limits"], reported["errors"], reported["left_out"]) == ([], [], [])
    assert figure_rows(reported)[1][5:8] == ["", "", ""]


def test_what_needs_a_certificate_is_left_out_where_there_is_no_openssl(
    evermq: Evermq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = evermq("bench", "--only", "herd-tls", "--runs", "2")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert words.endswith(
        "not measured: 1,000 workers of one address, with one password, log in at once, all, over TLS: there is no "
        "command openssl here, which makes the certificate"
    )


async def lose(trial: Trial) -> Measured:
    raise MeasurementError("message 7 and the next came as [8]")


async def wait_for_it(trial: Trial) -> Measured:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    ("run", "words"),
    [(lose, "message 7 and the next came as [8]"), (wait_for_it, "not done after 0.1 s")],
)
def test_a_workload_that_loses_a_message_is_a_failure(
    evermq: Evermq, monkeypatch: pytest.MonkeyPatch, run: Callable[[Trial], Awaitable[Measured]], words: str
) -> None:
    monkeypatch.setattr(session, "_SECONDS_MAX", 0.1 if run is wait_for_it else 60.0)
    monkeypatch.setattr(session, "WORKLOADS", {"wake": replace(WORKLOADS["wake"], run=run, ways=lambda count: ())})
    result = evermq("bench", "--only", "wake", "--json")
    line = f"a blocked get outside syncpoint wakes, p50, 256 bytes: {words}"
    assert the_line(result, 10) == line
    assert json.loads(result.stdout)["errors"] == [line]


def test_a_limit_that_cannot_be_measured_ends_it_all(evermq: Evermq, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(folder: Path, size: int, count: int) -> float:
        raise MeasurementError("database or disk is full")

    monkeypatch.setattr(session, "LIMITS", {"sync": replace(LIMITS["sync"], run=fail)})
    assert the_line(evermq("bench", "--only", "sync"), 20) == "database or disk is full"


def test_a_child_that_fails_ends_the_measurement_with_its_own_words() -> None:
    async def measure() -> None:
        async with child(put_singly, url="mq://127.0.0.1:0", size=256, count=1) as client:
            with pytest.raises(MeasurementError, match="MQRC_HOST_NOT_AVAILABLE"):
                await client.measured()

    anyio.run(measure, backend_options={"use_uvloop": True})


@pytest.mark.parametrize("numbers", [[0, 2], [0, 0], [1, 0]], ids=["lost", "doubled", "out of order"])
def test_messages_are_got_in_their_order(numbers: list[int]) -> None:
    check_numbers([body(number, 32) for number in (4, 5)], 4)
    with pytest.raises(MeasurementError, match="message 0 and the next came as"):
        check_numbers([body(number, 32) for number in numbers], 0)


def test_the_dearest_way_bounds_a_figure() -> None:
    names = {"request": 5e-6, "insert": 20e-6}
    limits = [LimitFigure(LIMITS[name], 256, [cost, cost, 1.0]) for name, cost in names.items()]
    figure = Figure(PUT_PIPELINED, 256, 30_000, [Measured(value=rate) for rate in (9_000, 10_000, 30_000)])
    reported = Report(figures=[figure], limits=limits, runs=3).as_json()
    assert figure_rows(reported)[1] == [
        "durable put, pipelined, 256 outstanding", "256", "10,000", "9,000 - 30,000", "messages/s",
        "insert", "50,000", "20%", "",
    ]  # fmt: skip
    assert limit_rows(reported)[2] == [
        "SQLite, a row inserted, 256 a transaction", "insert", "256", "20", "20 - 1,000,000", "50,000",
    ]  # fmt: skip


def test_a_share_is_of_times_alone() -> None:
    assert FigureUnit.CONNECTS_PER_SECOND.of(0.5) == FigureUnit.PER_SECOND.of(0.5) == 2
    assert FigureUnit.CONNECTS_PER_SECOND.seconds(4) == 0.25
    with pytest.raises(ValueError, match="memory"):
        FigureUnit.KIBIBYTES.seconds(1)


def test_the_processor_time_of_a_process_counts_all_its_threads() -> None:
    program = "import sys, hashlib, threading\nfor _ in range(2):\n    each = threading.Thread(target=lambda: "
    program += "hashlib.pbkdf2_hmac('sha256', b'', b'', 200_000))\n    each.start()\n    each.join()\n"
    program += "print(end='ended', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ended"
        taken = processor_seconds(process.pid)
        process.communicate()
    assert taken > 0.05


@pytest.mark.parametrize(
    ("told", "seconds"), [("00:00:07\n", 7), ("01:02:03", 3723), ("0:00.25\n", 0.25), (" 2:01.50", 121.5)]
)
def test_processor_times_are_read_as_ps_writes_them(told: str, seconds: float) -> None:
    assert in_seconds(told) == seconds


async def test_the_user_of_a_measurement_is_judged_and_has_the_rights_that_it_needs(tmp_path: Path) -> None:
    made = await protected(tmp_path, Protection.USERS)
    async with QueueManager.open(name="QM1") as manager:
        async with manager.connect() as owner:
            await owner.mqsc(f"{made.definitions}{DEFINITIONS}DEFINE QLOCAL(OTHER)", check=True)
        login = await manager.login(
            user=made.clients["EVERMQ_USER"], password=made.clients["EVERMQ_PASSWORD"], address="127.0.0.1"
        )
        async with manager.connect("bench", as_user=login) as bench:
            async with bench.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.INQUIRE):
                pass
            assert (await bench.status())["security"]["passwords_verified"] == 1
            with pytest.raises(MQError) as caught:
                await bench.open("OTHER", MQOO.OUTPUT)
    assert caught.value.reason == MQRC.NOT_AUTHORIZED


def test_the_other_commands_start_without_the_benchmarks() -> None:
    program = "import sys; import broker.cli; print([name for name in sys.modules if name.startswith('broker.bench')])"
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert reported.stdout == "[]\n"


def test_no_line_is_wider_than_a_page() -> None:
    limits = [LimitFigure(limit, size, [1.5e-3] * 3) for limit in LIMITS.values() for size in (256, 2048, 0)]
    measured = Measured(value=123_456.0, details={"the 99th percentile": 1_234_567.0, "the most memory": 99_999.0})
    figures = [Figure(workload, 2048, 1_000_000, [measured]) for workload in WORKLOADS.values()]
    reported = Report(figures=figures, limits=limits, runs=3).as_json()
    lines = list(bench_tables(reported))
    assert [line for line in lines if len(line) > 100] == []
    text = " ".join(" ".join(lines).split())
    assert text.count("the most memory 99,999") == len(WORKLOADS)
    assert all(figure.title in text for figure in figures)
