"""The answer to a call of MQSC: how its replies gather, are read in parts, and are counted."""

from __future__ import annotations

import asyncio
from functools import partial

from broker.engine.admin.scripts import UNREAD_BYTES, ScriptCall, weight_of
from broker.mqi.replies import CommandReply

SHORT = CommandReply(code="AMQ8006I", text="short")
LONG = CommandReply(code="AMQ8409I", text="x" * (UNREAD_BYTES - weight_of(CommandReply(code="AMQ8409I", text=""))))
LIMIT = 10 * UNREAD_BYTES


def streamed() -> ScriptCall:
    """A call whose parts somebody reads."""
    call = ScriptCall(LIMIT)
    call.stream(lambda: None)
    return call


async def test_a_reply_weighs_its_text_and_each_attribute_of_each_object() -> None:
    bare = weight_of(CommandReply(code="A", text=""))
    assert weight_of(CommandReply(code="A", text="four")) == bare + 4
    one = weight_of(CommandReply(code="A", text="", attributes=({"QUEUE": "Q"},))) - bare
    assert one > 0
    both = CommandReply(code="A", text="", attributes=({"QUEUE": "Q", "MAXDEPTH": 1}, {"QUEUE": "R"}))
    assert weight_of(both) == bare + 3 * one


async def test_replies_may_have_as_many_bytes_as_the_limit_in_all() -> None:
    call = ScriptCall(2 * weight_of(SHORT))
    for over in (False, False, True):
        call.add(SHORT)
        assert call.over == over


async def test_only_a_call_that_is_read_is_ever_full() -> None:
    call = ScriptCall(LIMIT)
    call.add(LONG)
    assert not call.full
    call.stream(lambda: None)
    assert call.full


async def test_a_call_is_full_until_it_is_read_and_then_holds_as_much_again() -> None:
    call = streamed()
    assert weight_of(LONG) == UNREAD_BYTES
    for _ in range(2):
        call.add(LONG)
        assert call.full
        assert len(call.read()) == 1
        assert not call.full
    call.add(SHORT)
    assert not call.full


async def test_who_waits_for_a_call_to_be_read_is_told_once() -> None:
    call = streamed()
    reported: list[None] = []
    call.wait(partial(reported.append, None))
    assert reported == []
    call.read()
    call.read()
    assert reported == [None]


async def test_parts_that_are_there_before_somebody_reads_are_heard_of_at_once() -> None:
    call = ScriptCall(LIMIT)
    heard: list[None] = []
    call.add(SHORT)
    call.stream(partial(heard.append, None))
    assert heard == [None]
    call.add(SHORT, continues=True)
    assert heard == [None, None]
    assert [part.continues for part in call.read()] == [False, True]


async def test_what_is_left_to_read_is_not_the_result_too() -> None:
    call = streamed()
    call.add(SHORT)
    call.complete()
    assert call.result() == []
    assert [part.reply for part in call.read()] == [SHORT]


async def test_a_call_that_is_over_holds_nothing_more_and_keeps_nobody_waiting() -> None:
    call = streamed()
    reported: list[None] = []
    call.add(LONG)
    call.wait(partial(reported.append, None))
    assert call.cancel()
    assert reported == [None]
    call.add(LONG)
    call.complete()
    assert not call.read()
    assert not call.full
    assert call.cancelled()
    ended = streamed()
    ended.add(LONG)
    ended.set_result([])
    assert not ended.full
    await asyncio.sleep(0)
