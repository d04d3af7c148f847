"""Who a job is: files that each process finds and reads, and no secret in what Spark shows."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQRC
from broker.spark.connecting import line
from broker.spark.credentials import JobCredentials, located
from broker.spark.options import Use, credentials_of, parse
from tests.client.gate import Brought, Gate, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PASSWORD, TOKEN = 1, 2
READ = {"url": "mq://h", "queue": "Q"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate on an event loop of its own: Spark's calls block."""
    gate = Gate()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listening = gate.listening()
    asyncio.run_coroutine_threadsafe(listening.__aenter__(), loop).result()
    yield gate
    asyncio.run_coroutine_threadsafe(listening.__aexit__(None, None, None), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def status(gate: Gate, credentials: JobCredentials) -> Any:
    return line(gate.url, 0.0, credentials=credentials).call(lambda connection: connection.status())


@pytest.mark.parametrize(("option", "kind"), [("passwordFile", PASSWORD), ("tokenFile", TOKEN)])
def test_a_process_reads_its_file_whenever_it_connects(option: str, kind: int, gate: Gate, tmp_path: Path) -> None:
    """X10.1."""
    file = tmp_path / "secret"
    given = credentials_of({"user": "alice", "CHANNEL": "A", option: str(file)})
    for secret in ("first", "second"):
        file.write_text(f"{secret}\n")
        assert status(gate, given)["name"] == "QM1"
        line(gate.url, 0.0, credentials=given).call(_cut)
    assert gate.connects == [Brought("alice", "A", kind, b"first"), Brought("alice", "A", kind, b"second")]


async def _cut(connection: Any) -> None:
    connection.port.break_()


def test_each_user_has_a_line_of_its_own(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for user in ("alice", "bob", "alice"):
        status(gate, JobCredentials(user, password_file=str(tmp_path / "secret")))
    assert [each.user for each in gate.connects] == ["alice", "bob"]


def test_a_file_is_a_path_or_the_name_of_one_given_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkFiles

    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "secret").write_text("x")
    monkeypatch.chdir(tmp_path)
    for root in ("shipped", "shipped/streaming_job"):  # which Spark names to the driver's process of a stream
        monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda root=root: str(tmp_path / root))
        assert located("secret") == str(tmp_path / "shipped" / "secret")
    assert located("other") == "other"
    assert located("/run/secret") == "/run/secret"
    (tmp_path / "secret").write_text("x")
    assert located("secret") == "secret"


def test_a_file_that_is_not_there_is_2063(gate: Gate) -> None:
    with pytest.raises(MQError, match="cannot read the password in /nowhere") as raised:
        status(gate, JobCredentials(password_file="/nowhere"))
    assert raised.value.reason == MQRC.SECURITY_ERROR


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"password": "canary"}, "option password: options stand in plans, .* give passwordFile"),
        ({"TOKEN": "canary"}, "option TOKEN: options stand in plans, .* give tokenFile"),
        ({"passwordFile": "a", "tokenFile": "b"}, "one of them proves the user"),
        ({"user": ""}, "option user is '': it is empty"),
        ({"userName": "canary"}, "userName is no option of mq"),
    ],
)
def test_a_secret_is_no_option(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        parse({**READ, **given}, Use.READ)
    assert "canary" not in str(raised.value)


def test_a_data_directory_asks_nobody() -> None:
    with pytest.raises(ValueError, match="are for a url"):
        parse({"path": "data", "queue": "Q", "user": "alice"}, Use.READ)


@pytest.mark.parametrize(
    ("url", "given", "complaint"),
    [
        ("mq://h", JobCredentials(ca_file="ca.pem"), "tls= is for mqs://"),
        ("mqs://h", JobCredentials(key_file="key.pem"), "a key and no certificate"),
        ("mq://alice:canary@h", JobCredentials(), "has a password"),
    ],
)
def test_what_does_not_fit_the_url_is_an_error_at_once(url: str, given: JobCredentials, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        line(url, 1.0, credentials=given)
    assert "canary" not in str(raised.value)


def test_a_secret_is_in_no_plan_and_no_error(spark: SparkSession, gate: Gate, tmp_path: Path) -> None:
    """X10.3: the processes of Spark have read it and brought it."""
    file = tmp_path / "secret"
    file.write_text("canary")
    gate.admit = lambda secret: refuse()
    frame = spark.read.format("mq").options(url=gate.url, queue="Q", user="alice", passwordFile=str(file)).load()
    told = frame._jdf.queryExecution().toString()  # type: ignore[operator]
    with pytest.raises(Exception, match="not authorized") as raised:
        frame.collect()
    assert {(each.user, each.secret) for each in gate.connects} == {("alice", b"canary")}
    assert "canary" not in told
    assert "canary" not in str(raised.value)
