"""Lines that have to log in: what they may send, for how long, and that they cost nothing afterwards."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from broker.server.security.entry_policy import EntryPolicy
from broker.wire import Verb
from tests.server.security.conftest import Files, Line, dial, hung_up, listening, port_of, until
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from broker import QueueManager
    from broker.testing import VirtualClock


def checking(manager: QueueManager, limits: LimitsConfig | None = None) -> Server:
    """A listener without TLS, on which everybody has to log in."""
    return Server(
        manager, ListenerConfig(port=0), limits or LimitsConfig(), EntryPolicy(must_log_in=lambda address: True)
    )


async def taken(server: Server, places: int) -> None:
    """Wait until so many places are taken."""
    await until(lambda: server.newcomers == places)


async def test_a_line_that_has_logged_in_holds_no_place_and_is_its_sessions_own(
    manager: QueueManager, files: Files
) -> None:
    async with listening(manager, files.config) as server:
        line = await dial(port_of(server), files.client())
        line.say(*HELLO)
        await line.hear()
        assert server.newcomers == 1
        line.say(Verb.CONNECT, 1, 1, "", "test", "bob")
        assert (await line.hear())[0] == Verb.ANSWER
        assert server.newcomers == 0
        (session,) = server._sessions
        assert session.transport.get_protocol() is session
        await line.call(2)
        line.close()
        await until(lambda: not server.sessions)


async def test_a_connect_that_fails_may_be_tried_again_until_the_time_is_over(
    manager: QueueManager, clock: VirtualClock
) -> None:
    async with checking(manager) as server:
        line = await dial(port_of(server))
        line.say(*HELLO)
        await line.hear()
        line.say(Verb.CONNECT, 1, 1, "QM2", "test", "bob")
        assert (await line.hear())[0] == Verb.FAILED
        assert server.newcomers == 1
        await clock.advance(5.1)
        while True:
            try:
                assert (await line.hear())[0] == Verb.HEARTBEAT
            except (asyncio.IncompleteReadError, ConnectionError):
                break
        await taken(server, 0)
        line.close()


@pytest.mark.parametrize("said", ["nothing", "HELLO"])
async def test_a_line_that_does_not_log_in_is_cut(manager: QueueManager, clock: VirtualClock, said: str) -> None:
    async with checking(manager) as server:
        line = await dial(port_of(server))
        if said == "HELLO":
            line.say(*HELLO)
            await line.hear()
        await taken(server, 1)
        await clock.advance(4.9)
        assert server.newcomers == 1
        await clock.advance(0.2)
        await taken(server, 0)
        line.close()


async def test_a_line_that_sends_much_before_its_login_is_cut(manager: QueueManager) -> None:
    async with checking(manager) as server:
        line = await dial(port_of(server))
        line.say(*HELLO)
        await line.hear()
        line.writer.write((100_000).to_bytes(4, "big") + b"x" * 66_000)
        assert await hung_up(line)
        await taken(server, 0)
        line.close()


async def test_x8_1_of_too_many_lines_of_a_stranger_the_oldest_is_closed(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.server.security.lines.LineSecurity.local", False)
    async with checking(manager, LimitsConfig(logins=4, logins_per_address=3)) as server:
        lines: list[Line] = []
        for number in range(3):
            lines.append(await dial(port_of(server)))
            await taken(server, number + 1)
        lines.append(await dial(port_of(server)))
        assert await hung_up(lines[0])
        await lines[-1].log_in()
        await taken(server, 2)
        for line in lines:
            line.close()


async def test_a_thousand_programs_of_this_machine_that_connect_at_once_all_come_in(
    manager: QueueManager,
) -> None:
    async with checking(manager, LimitsConfig(logins=8, logins_per_address=3)) as server:

        async def come() -> Line:
            line = await dial(port_of(server))
            await line.log_in()
            return line

        lines = await asyncio.gather(*(come() for _ in range(200)))
        assert server.sessions == 200
        for line in lines:
            line.close()


async def test_a_blocked_address_is_closed_without_a_byte(
    manager: QueueManager, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    blocked = ["127.0.0.1"]
    async with listening(manager, files.config, blocked=lambda address: address in blocked) as server:
        for address in server.addresses:
            line = await dial(int(address.rpartition(":")[2]))
            assert await hung_up(line)
            line.close()
        assert "connection_refused peer=127.0.0.1: its address is blocked" in caplog.text
        blocked.clear()
        line = await dial(port_of(server), files.client())
        await line.log_in()
        line.close()


async def test_a_refusal_is_logged_at_most_ten_times_a_second(
    manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    admission = EntryPolicy(blocked=lambda address: True)
    async with Server(manager, ListenerConfig(port=0), LimitsConfig(), admission) as server:

        async def come(times: int) -> None:
            for _ in range(times):
                line = await dial(port_of(server))
                assert await hung_up(line)
                line.close()

        await come(15)
        assert caplog.text.count("its address is blocked") == 10
        await clock.advance(1)
        await come(1)
        assert caplog.text.count("its address is blocked") == 11
        assert "lines_left_out after=connection_refused lines=5" in caplog.text


async def test_all_that_is_logged_of_the_lines_of_an_address_is_at_most_ten_lines_a_second(
    manager: QueueManager, files: Files, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with listening(manager, files.config) as server:

        async def say(data: bytes, *, tls: bool) -> None:
            line = await dial(port_of(server), files.client() if tls else None)
            line.writer.write(data)
            while await line.reader.read(1000):
                pass
            line.close()

        caplog.clear()
        for _ in range(6):
            await say(bytes(100), tls=False)
            await say(b"\xff" * 100, tls=True)
        await until(lambda: not server.sessions)
        said = [record.getMessage().partition(" peer=127.0.0.1")[0] for record in caplog.records]
        assert (said.count("connection_refused"), said.count("line refused"), len(said)) == (5, 5, 10)
        await clock.advance(1)
        await say(bytes(100), tls=False)
        assert "lines_left_out after=connection_refused lines=2" in caplog.text


@pytest.mark.parametrize("local", [True, False])
async def test_x8_1_of_very_many_who_come_together_few_are_accepted_in_a_turn_of_the_loop(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, *, local: bool
) -> None:
    """Others are served in between."""
    address = "" if local else "192.0.2.66"
    monkeypatch.setattr("broker.server.security.acceptor.address_of", lambda peer: address)
    accept, accepted = socket.socket.accept, 0

    def counted(self: socket.socket) -> object:
        nonlocal accepted
        found = accept(self)
        accepted += 1
        return found

    monkeypatch.setattr(socket.socket, "accept", counted)
    async with checking(manager) as server:
        own = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(100)]
        turns = []
        while accepted < len(own):
            before = accepted
            await asyncio.sleep(0)
            turns.append(accepted - before)
        assert max(turns) == 8
        for each in own:
            each.close()
        await taken(server, 0)


async def test_sockets_that_cannot_be_accepted_are_tried_again_after_a_pause(
    manager: QueueManager, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import errno

    accept, tries = socket.socket.accept, []

    def fails(self: socket.socket) -> object:
        tries.append(clock.monotonic())
        if len(tries) <= 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        monkeypatch.setattr(socket.socket, "accept", fails)
        line = await dial(port_of(server))
        while len(tries) < 4:
            await clock.advance(1)
        await line.log_in()
        line.close()
    assert tries[:4] == [tries[0], tries[0] + 1, tries[0] + 2, tries[0] + 3]
    assert caplog.text.count("no client accepted: Too many open files; the next try is in 1 s") == 3


async def test_lines_that_wait_for_a_place_end_with_the_server(manager: QueueManager) -> None:
    async with checking(manager, LimitsConfig(logins=4, logins_per_address=3)) as server:
        lines = [await dial(port_of(server)) for _ in range(5)]
        await taken(server, 1)
    for line in lines:
        while await line.reader.read(100):
            pass
        line.close()
