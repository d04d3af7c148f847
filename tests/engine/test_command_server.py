"""The command server: nobody holds the event loop with a script, fills the memory with its replies, or wedges it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker import CommandFailedError, MQError, QueueManager
from broker.commands.language import script as script_module
from broker.config import Config
from broker.engine.admin import command_server
from broker.engine.admin.scripts import UNREAD_BYTES, ScriptCall, weight_of
from broker.mqi import MQOO, MQRC, ObjectDescriptor
from broker.mqi.replies import CommandReply, ReplyPart, joined, replies_of
from broker.storage.store import StoreFullError
from broker.testing import VirtualClock
from tests.engine.bench import opened as opened_on_a_faulty_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection
    from broker.engine.conversation import Conversation


@asynccontextmanager
async def opened(**limits: int) -> AsyncIterator[tuple[QueueManager, Connection]]:
    """A queue manager in memory, with a connection."""
    config = replace(Config(), limits=replace(Config().limits, **limits))
    config = replace(config, queue_manager=replace(config.queue_manager, data=None))
    async with QueueManager.open(config, clock=VirtualClock()) as manager, manager.connect() as connection:
        yield manager, connection


async def codes(connection: Connection, text: str) -> list[str]:
    return [reply.code for reply in await connection.mqsc(text)]


async def turns_of(awaited: asyncio.Future[Any]) -> int:
    """Return the number of turns that the event loop makes until it is there."""
    turns = 0
    while not awaited.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


def conversation(manager: QueueManager) -> Conversation:
    return manager.converse("test")


# The event loop.


@pytest.mark.parametrize("script", ["x;" * 6000, "\n" * 6000, "* comment\n" * 6000])
async def test_a_long_script_leaves_the_event_loop_to_others(script: str) -> None:
    async with opened() as (manager, _):
        assert await turns_of(conversation(manager).mqsc(script)) >= 6


async def test_a_display_of_very_many_objects_leaves_the_event_loop_to_others_even_where_none_is_shown() -> None:
    async with opened() as (manager, connection):
        await connection.mqsc("".join(f"DEFINE QLOCAL(Q{number});" for number in range(3000)))
        program = conversation(manager)
        shown = program.mqsc("DISPLAY QLOCAL(Q*) MAXDEPTH")
        assert await turns_of(shown) >= 3
        assert [len(reply.attributes) for reply in shown.result()] == [3000]
        none = program.mqsc("DISPLAY QLOCAL(*) WHERE(MAXDEPTH EQ 77)")
        assert await turns_of(none) >= 3
        assert [reply.code for reply in none.result()] == ["AMQ8147E"]


async def test_scripts_of_several_connections_take_turns() -> None:
    async with opened() as (manager, _):
        long = conversation(manager).mqsc("\n" * 200_000)
        short = conversation(manager).mqsc("DEFINE QLOCAL(Q)")
        await short
        assert not long.done()
        long.withdraw()


async def test_a_command_of_very_many_words_is_refused_before_it_is_parsed() -> None:
    async with opened() as (_, connection):
        (reply,) = await connection.mqsc("DISPLAY QLOCAL(*) " + "A " * 1000)
        assert reply.code == "AMQ8405I"
        assert "up to 1000 words" in reply.text
        (reply,) = await connection.mqsc("DISPLAY QLOCAL(*) " + "A " * 990)
        assert "up to 1000 words" not in reply.text
        (reply,) = await connection.mqsc("DEFINE QLOCAL(A) DESCR('" + "''" * 2000 + "')")
        assert reply.code == "AMQ8413E"


# What it holds.


async def test_a_script_over_script_bytes_is_refused_whole() -> None:
    async with opened(script_bytes=2000) as (_, connection):
        text = "DEFINE QLOCAL(Q)\n"
        with pytest.raises(MQError, match=r"2001 bytes is over \[limits\] script_bytes = 2000") as caught:
            await connection.mqsc(text + "*" * (2001 - len(text)))
        assert caught.value.reason == MQRC.DATA_LENGTH_ERROR
        assert await codes(connection, "DISPLAY QLOCAL(Q)") == ["AMQ8147E"]
        with pytest.raises(MQError):
            await connection.mqsc("*" + "\N{EURO SIGN}" * 667)
        assert await codes(connection, text + "*" * (2000 - len(text))) == ["AMQ8006I"]


async def test_replies_over_replies_bytes_end_the_script_which_says_what_was_run() -> None:
    async with opened(replies_bytes=4000) as (_, connection):
        script = "DEFINE QLOCAL(A)\nDISPLAY QLOCAL(*) ALL\nDISPLAY QLOCAL(*) ALL\nDEFINE QLOCAL(B)"
        defined, shown, last = (await connection.mqsc(script))[:3]
        assert (defined.ok, shown.ok, last.ok) == (True, True, False)
        assert sum(map(weight_of, (defined, shown))) < 12_000
        assert last.code == "AMQ8101S"
        assert "[limits] replies_bytes = 4000. The first 2 commands were run" in last.text
        assert await codes(connection, "DISPLAY QLOCAL(A) MAXDEPTH\nDISPLAY QLOCAL(B) MAXDEPTH") == [
            "AMQ8409I",
            "AMQ8147E",
        ]


async def test_replies_that_nobody_reads_are_not_made_and_keep_nobody_waiting() -> None:
    async with opened() as (manager, connection):
        await connection.mqsc("".join(f"DEFINE QLOCAL(Q{number});" for number in range(200)))
        call = conversation(manager).mqsc("DISPLAY QLOCAL(*) ALL;" * 10 + "DEFINE QLOCAL(LAST)")
        heard: list[None] = []
        call.stream(partial(heard.append, None))
        assert await codes(connection, "DEFINE QLOCAL(OTHER)") == ["AMQ8006I"]
        for _ in range(100):
            await asyncio.sleep(0)
        assert not call.done()
        parts = call.read()
        assert UNREAD_BYTES <= sum(weight_of(part.reply) for part in parts) < UNREAD_BYTES + 10_000
        while not call.done():
            await asyncio.sleep(0)
            parts += call.read()
        replies = replies_of([*parts, *call.read()])
        assert [reply.code for reply in replies] == ["AMQ8409I"] * 10 + ["AMQ8006I"]
        assert len(heard) == len(parts)
        whole = await connection.mqsc("DISPLAY QLOCAL(*) ALL")
        assert len(whole[0].attributes) == len(replies[0].attributes) + 2


async def test_a_script_goes_on_to_its_end_when_its_caller_has_gone_but_displays_nothing() -> None:
    async with opened() as (manager, connection):
        await connection.mqsc("".join(f"DEFINE QLOCAL(Q{number});" for number in range(200)))
        call = conversation(manager).mqsc("DISPLAY QLOCAL(*) ALL;" * 3 + "DEFINE QLOCAL(LAST)")
        call.stream(lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        call.withdraw()
        for _ in range(100):
            await asyncio.sleep(0)
        assert await codes(connection, "DISPLAY QLOCAL(LAST) MAXDEPTH") == ["AMQ8409I"]
        assert call.read() == []


async def test_scripts_end_with_the_queue_manager() -> None:
    async with opened() as (manager, connection):
        await connection.mqsc("".join(f"DEFINE QLOCAL(Q{number});" for number in range(200)))
        aside = conversation(manager).mqsc("DISPLAY QLOCAL(*) ALL")
        aside.stream(lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        begun = conversation(manager).mqsc("\n" * 200_000)
    for call in (aside, begun):
        assert isinstance(call.exception(), MQError)
        assert str(call.exception()) == "MQRC_Q_MGR_STOPPING (2162): QM1 is stopping"


# Mistakes.


async def test_commands_with_what_is_no_character_are_refused_and_the_next_are_run() -> None:
    async with opened() as (_, connection):
        with pytest.raises(MQError, match=r"U\+D800 at position 24 of the commands is not a character") as caught:
            await connection.mqsc("DEFINE QLOCAL(A) DESCR('\ud800')")
        assert caught.value.reason == MQRC.CHAR_CONVERSION_ERROR
        assert await codes(connection, "DEFINE QLOCAL(A)") == ["AMQ8006I"]


def once(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails the first time."""
    calls = []

    def fails(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyError("injected")
        return real(*arguments, **options)

    return fails


@pytest.mark.parametrize("place", ["begin", "freeze", "apply", "add", "steps"])
async def test_a_mistake_ends_the_script_with_an_error_and_the_next_is_run(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as (manager, connection):
        owner = {"begin": command_server, "steps": script_module, "add": ScriptCall}.get(place, manager.core)
        monkeypatch.setattr(owner, place, once(getattr(owner, place)))
        script = conversation(manager).mqsc("DEFINE QLOCAL(A)")
        other = manager.converse("other").mqsc("DEFINE QLOCAL(B)")
        (reply,) = await script
        assert (reply.ok, reply.code) == (False, "AMQ8101S")
        assert "KeyError in the queue manager, see its log" in reply.text
        assert "KeyError: 'injected'" in caplog.text
        assert [each.code for each in await other] == ["AMQ8006I"]
        assert await codes(connection, "DEFINE QLOCAL(C)") == ["AMQ8006I"]


@pytest.mark.parametrize("place", ["make_dynamic", "freeze", "apply", "open_dynamic"])
async def test_a_mistake_in_a_change_that_a_call_makes_answers_the_call(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as (manager, connection):
        monkeypatch.setattr(manager.core, place, once(getattr(manager.core, place)))
        model = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE")
        with pytest.raises(MQError) as caught:
            await connection.open(model, MQOO.OUTPUT)
        assert caught.value.reason == MQRC.UNEXPECTED_ERROR
        async with connection.open(model, MQOO.OUTPUT) as queue:
            await queue.put(b"x")


async def test_what_a_change_is_refused_with_when_it_is_made_answers_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as (manager, connection):

        def refuse(*arguments: Any) -> Any:
            raise MQError(MQRC.HANDLE_NOT_AVAILABLE, "no more")

        monkeypatch.setattr(manager.core, "open_dynamic", refuse)
        with pytest.raises(MQError) as caught:
            await connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", MQOO.OUTPUT)
        assert caught.value.reason == MQRC.HANDLE_NOT_AVAILABLE
        assert await codes(connection, "DEFINE QLOCAL(A)") == ["AMQ8006I"]


# Replies in parts.


def test_parts_make_up_the_replies_that_they_are_parts_of() -> None:
    a, b, c = (CommandReply(code="AMQ8409I", text=text, attributes=({"QUEUE": text},)) for text in "abc")
    assert replies_of([ReplyPart(a), ReplyPart(b), ReplyPart(c, True)]) == [a, joined([b, c])]
    assert joined([b, c]) == CommandReply(code="AMQ8409I", text="b\nc", attributes=({"QUEUE": "b"}, {"QUEUE": "c"}))
    assert replies_of([]) == []


# A checked script.


async def test_a_checked_script_ends_at_a_display_of_what_is_not_there() -> None:
    async with opened() as (_, connection):
        with pytest.raises(CommandFailedError) as caught:
            await connection.mqsc("DISPLAY QLOCAL(NONE)\nDEFINE QLOCAL(LATER)", check=True)
        assert [reply.code for reply in caught.value.replies] == ["AMQ8147E"]
        assert await codes(connection, "DISPLAY QLOCAL(LATER)") == ["AMQ8147E"]


async def test_a_checked_script_ends_at_a_change_for_which_the_store_has_no_room() -> None:
    async with opened_on_a_faulty_store() as bench:
        bench.store.fail_next(StoreFullError("the disk is full"))
        with pytest.raises(CommandFailedError) as caught:
            await bench.connection.mqsc("DEFINE QLOCAL(FIRST)\nDEFINE QLOCAL(LATER)", check=True)
        assert [reply.code for reply in caught.value.replies] == ["AMQ8101S"]
        assert await codes(bench.connection, "DISPLAY QLOCAL(FIRST)\nDISPLAY QLOCAL(LATER)") == ["AMQ8147E"] * 2


async def test_a_script_given_up_before_its_turn_runs_all_the_same() -> None:
    async with opened() as (manager, _):
        port = conversation(manager)
        first, second = port.mqsc("DEFINE QLOCAL(A)"), port.mqsc("DEFINE QLOCAL(B)\nDEFINE QLOCAL(C)")
        second.withdraw()
        await first
        replies = await port.mqsc("DISPLAY QLOCAL(C)")
        assert [reply.code for reply in replies] == ["AMQ8409I"]
