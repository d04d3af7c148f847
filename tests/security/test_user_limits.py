"""The limits of a user: connections, calls a second, and the bytes of a unit of work (security 8.3)."""

from __future__ import annotations

import asyncio

import pytest

from broker import MQError
from broker.mqi import MQOO, MQPMO, MQRC, ObjectDescriptor, PutMessageOptions
from broker.server.served_calls import ServedCalls
from broker.wire import Verb
from broker.wire.frames import Frame
from broker.wire.structures import object_fields, packed_put_options
from tests.security.lines import PASSWORD, listening, users
from tests.server.security.conftest import until

Q = object_fields(ObjectDescriptor(object_name="Q"))
PUT_IN_UNIT = packed_put_options(PutMessageOptions(options=MQPMO.SYNCPOINT))


def limited(limits: str) -> str:
    return f"{users()}\nALTER USER('bob') {limits}"


async def test_a_user_has_so_many_connections() -> None:
    async with listening(limited("MAXCONNS(2)")) as listener:
        first, second = await listener.bob(), await listener.bob()
        assert (await second.connect(conversation=2))[3] == MQRC.MAX_CONNS_LIMIT_REACHED
        with pytest.raises(MQError) as caught:
            listener.manager.connect(as_user="bob")
        assert caught.value.reason == MQRC.MAX_CONNS_LIMIT_REACHED
        await first.call(Verb.DISCONNECT, False)
        assert (await second.connect(conversation=2))[0] == Verb.ANSWER
        for each in (first, second):
            each.close()


async def test_a_unit_of_work_of_a_user_holds_so_many_bytes() -> None:
    async with listening(limited("MAXUOW(1000)")) as listener:
        program = await listener.bob()
        hobj = (await program.call(Verb.OPEN, Q, int(MQOO.OUTPUT)))[3]
        for _ in range(2):
            answers = [await program.call(Verb.PUT, hobj, None, PUT_IN_UNIT, b"x" * 300) for _ in range(4)]
            assert [each[0] for each in answers] == [Verb.ANSWER] * 3 + [Verb.FAILED]
            assert answers[-1][3] == MQRC.STORAGE_NOT_AVAILABLE
            await program.call(Verb.BACKOUT)
        program.close()


async def test_x8_3_a_user_makes_so_many_calls_a_second_on_all_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []
    start = ServedCalls.start

    def counted(self: ServedCalls, frame: Frame) -> None:
        made.append(listener.clock.monotonic())
        start(self, frame)

    monkeypatch.setattr(ServedCalls, "start", counted)
    async with listening(limited("MAXCALLS(100)")) as listener:
        programs = [await listener.bob(), await listener.bob()]
        for program in programs:
            for _ in range(500):
                program.say(Verb.COMMIT)
            await program.line.writer.drain()
        await until(lambda: len(made) >= 16)
        await listener.clock.advance(1)
        for _ in range(3):
            before, now = len(made), listener.clock.monotonic()
            while listener.clock.monotonic() < now + 2:
                await listener.clock.advance(0.125)
            assert abs((len(made) - before) / 2 - 100) <= 5
        await listener.command("ALTER USER('bob') MAXCALLS(0)")
        await listener.clock.advance(1)
        await until(lambda: len(made) == 1000)
        for program in programs:
            program.close()


async def test_x8_2_the_user_that_is_attacked_comes_in() -> None:
    late = "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(1)"
    async with listening(f"{users()}\n{late}") as listener:
        login = listener.manager.login
        assert (await login(user="bob", password=PASSWORD, address="192.0.2.9")).user == "bob"
        attacks = [
            asyncio.ensure_future(login(user="bob", password=f"wrong{number}", address="192.0.2.1"))
            for number in range(30)
        ]
        await asyncio.sleep(0)
        assert (await login(user="bob", password=PASSWORD, address="192.0.2.9")).user == "bob"  # it waits for none
        assert not any(attack.done() for attack in attacks)
        for attack in attacks:
            attack.cancel()
        await asyncio.wait(attacks)
        assert (await login(user="bob", password=PASSWORD, address="192.0.2.1")).user == "bob"
