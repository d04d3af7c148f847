"""Apps and workers whose user is refused, after they have served: two dials, then they end (security 10.3)."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import signal
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQRC, MQError
from tests.handlers.processes import APP, BOB, ROOT, daemon_with_users, evermq, worker
from tests.security.lines import PASSWORD, Listener, hashed, listening, users
from tests.server.security.conftest import until
from triggers import App
from triggers.app.source import UrlSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import RunningDaemon

SERVED = f"""
{users()}
DEFINE PROCESS(Q)
DEFINE QLOCAL(Q.DEAD)
ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(Q)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(DSP)
SET AUTHREC PROFILE('Q.**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,PASSALL,DSP)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(DSP)
SET AUTHREC PROFILE(Q) OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(DSP)
"""
DISABLE = "ALTER USER('bob') STATUS(DISABLED)"
ENABLE = "ALTER USER('bob') STATUS(ENABLED)"


def app_of(listener: Listener) -> tuple[App, list[str]]:
    """An app of bob's with the time of the queue manager, and what it has handled."""
    app, handled = App(listener.url, user="bob", password=PASSWORD), []
    assert isinstance(app.source, UrlSource)
    app.source.clock, app.source.random = listener.clock, random.Random(0)

    @app.handler("Q")
    async def handle(body: str) -> None:
        handled.append(body)

    return app, handled


async def pass_time(listener: Listener, seconds: int) -> None:
    """Let time pass, and sockets say what they have to say in it; it stands while somebody is found out."""
    for _ in range(seconds):
        await listener.clock.advance(1)
        for _ in range(50):
            await asyncio.sleep(0)
        await until(lambda: not any(line.logins.busy for line in listener.server.lines))


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "broker")


def dials(caplog: pytest.LogCaptureFixture) -> int:
    """Return the number of times that somebody was refused."""
    return sum("connection_refused" in record.getMessage() for record in caplog.records)


async def test_an_app_whose_user_is_refused_dials_twice_and_ends_with_2035(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(SERVED) as listener:
        app, _ = app_of(listener)
        with pytest.raises(MQError, match=r"2035\): not authorized") as caught:
            async with app.running(wait=True):
                await listener.command(DISABLE)
                await pass_time(listener, 300)
                pytest.fail("it goes on")
        assert caught.value.reason == MQRC.NOT_AUTHORIZED
        assert dials(caplog) == 2
        await pass_time(listener, 60)
        assert dials(caplog) == 2
    assert PASSWORD not in caplog.text


async def test_an_app_that_was_started_raises_it_where_it_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(SERVED) as listener:
        app, _ = app_of(listener)
        await app.start()
        await listener.command(DISABLE)
        await pass_time(listener, 300)
        assert dials(caplog) == 2
        with pytest.raises(MQError, match="2035"):
            await app.stop()
        with pytest.raises(MQError, match="2035"):  # at its start it is refused at once
            await app.start(wait=True)
        assert dials(caplog) == 3


async def test_an_app_that_is_refused_once_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(SERVED) as listener:
        app, handled = app_of(listener)
        async with app.running():
            for number in range(3):
                before = dials(caplog)
                await listener.command(DISABLE)
                while dials(caplog) == before:
                    await pass_time(listener, 1)
                await listener.command(ENABLE)
                await pass_time(listener, 1)
                await app.put("Q", str(number))
                await until(lambda: len({*handled}) > number)  # noqa: B023
        assert [*dict.fromkeys(handled)] == ["0", "1", "2"]  # that some are settled too late is another matter
        assert dials(caplog) == 3


# Workers


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon with users that the tests of this file share."""
    with daemon_with_users(tmp_path_factory.mktemp("daemon"), f"DEFINE QLOCAL(Q)\n{SERVED}") as running:
        yield running


BY_APP = """
@app.handler("Q")
async def handle(body: str) -> None: ...
"""
BY_PROCESS = """
from triggers import process
del app

@process("Q", deliver="message")
async def handle(body: str) -> None: ...
"""


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("text", [BY_APP, BY_PROCESS], ids=["app", "process"])
def test_a_worker_whose_user_is_refused_ends_as_at_its_start(
    text: str, processes: str, served: RunningDaemon, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(APP + text, "utf-8")
    with worker(tmp_path, served.url, "--processes", processes, **BOB) as workers:
        workers.logged("worker ready", int(processes))
        evermq(served.url, "mqsc", text=DISABLE, **ROOT)
        try:
            assert workers.end(None) == 20
            told = workers.logged("^evermq: .*2035")
            assert all("not authorized" in line for line in told)
            assert len(workers.logged("once more")) <= int(processes)
            with worker(tmp_path, served.url, "--processes", processes, **BOB) as others:
                assert others.end(None) == 20
                assert others.logged("^evermq: .*2035")
        finally:
            evermq(served.url, "mqsc", text=ENABLE, **ROOT)


def test_all_processes_end_where_one_that_is_started_again_is_refused_twice(
    served: RunningDaemon, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(APP + BY_APP, "utf-8")
    with worker(tmp_path, served.url, "--processes", "2", **BOB) as workers:
        (ready, _) = workers.logged("worker ready", 2)
        evermq(served.url, "mqsc", text=f"ALTER USER('bob') PASSWORD('{hashed('other')}')", **ROOT)
        try:
            os.kill(int(re.findall(r"pid=(\d+)", ready)[0]), signal.SIGKILL)
            assert workers.end(None) == 20
            assert len(workers.logged("^evermq: .*2035")) == 2
            assert len(workers.logged("ended by itself exit code 20")) == 1
            assert len(workers.logged("worker stops")) == 1  # the one that went on
        finally:
            evermq(served.url, "mqsc", text=f"ALTER USER('bob') PASSWORD('{hashed()}')", **ROOT)
