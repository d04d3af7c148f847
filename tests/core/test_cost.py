"""What calls cost, in operations: it does not grow with depth, waiters or uncommitted messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.calls.gets import choosing, dispatch
from broker.core.manager import Manager
from broker.core.message.entry import Entry
from broker.core.message.headers import properties
from broker.core.queues.shelf.selection import Request
from broker.core.queues.shelf.views import LOOKS_AT_ONCE, Search
from broker.core.selector import Selector, message
from broker.interface.properties import with_properties
from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from broker.mqi.layouts import folders
from tests.core.world import ALL, World, fails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from broker.core.queues.queue import LocalQueue
    from broker.mqi.layouts.folders import Value

NUMBERS = [100, 10_000]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """The entries that a request was compared with, one for each comparison."""
    compared: list[Entry] = []
    matches: Callable[[Request, Entry], bool] = Request.matches

    def counted(request: Request, entry: Entry) -> bool:
        compared.append(entry)
        return matches(request, entry)

    monkeypatch.setattr(Request, "matches", counted)
    return compared


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests of getters that were asked whether they take a message that has come, one for each time."""
    judged: list[Request] = []
    judge: Callable[[dispatch._Judge, Request], Entry | None] = dispatch._Judge.__call__

    def counted(self: dispatch._Judge, request: Request) -> Entry | None:
        judged.append(request)
        return judge(self, request)

    monkeypatch.setattr(dispatch._Judge, "__call__", counted)
    return judged


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests for which a queue was searched, one for each time."""
    looked: list[Request] = []
    choose = choosing.choose

    def counted(manager: Manager, queue: LocalQueue, request: Request, now: float) -> Entry | None:
        looked.append(request)
        return choose(manager, queue, request, now)

    monkeypatch.setattr(choosing, "choose", counted)
    return looked


def number_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


@pytest.mark.parametrize("waiters", NUMBERS)
def test_a_put_asks_only_the_getter_that_waits_for_its_correl_id(
    world: World, asked: list[Entry], waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    waits = [access.wait(0, MessageDescriptor(correl_id=number_id(number + 1))) for number in range(waiters)]
    asked.clear()
    for number in (waiters // 2, waiters - 1, 0):
        access.put(b"reply", 0, MessageDescriptor(correl_id=number_id(number + 1)))
        assert waits[number].message is not None
    assert len(asked) == 3
    access.put(b"of nobody", 0, MessageDescriptor(correl_id=number_id(waiters + 1)))
    assert len(asked) == 3


@pytest.mark.parametrize("waiters", NUMBERS)
def test_a_put_asks_only_the_getter_that_waits_for_its_msg_id(world: World, asked: list[Entry], waiters: int) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for number in range(waiters):
        access.wait(0, MessageDescriptor(msg_id=number_id(number + 1), correl_id=number_id(7)))
    asked.clear()
    access.put(b"reply", 0, MessageDescriptor(msg_id=number_id(waiters), correl_id=number_id(7)))
    assert len(asked) <= 1


@pytest.mark.parametrize("waiters", NUMBERS)
@pytest.mark.parametrize("md", [MessageDescriptor(), MessageDescriptor(correl_id=number_id(1))], ids=["any", "one id"])
def test_of_many_that_would_take_a_message_only_the_first_is_asked(
    world: World, judged: list[Request], md: MessageDescriptor, waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for _ in range(waiters):
        access.wait(0, md)
    access.wait(0, MessageDescriptor(msg_id=number_id(2)))
    access.put(b"A", 0, MessageDescriptor(msg_id=number_id(2), correl_id=number_id(1)))
    access.put(b"B", 0, MessageDescriptor(correl_id=number_id(1)))
    assert len(judged) == 2


def group_md(number: int, *, last: bool = True) -> MessageDescriptor:
    flags = MQMF.LAST_MSG_IN_GROUP if last else MQMF.MSG_IN_GROUP
    return MessageDescriptor(group_id=number_id(number), msg_flags=int(flags))


@pytest.mark.parametrize("waiters", NUMBERS)
@pytest.mark.parametrize(
    ("match", "options"),
    [
        (MQMO.MATCH_GROUP_ID, 0),
        (MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER, 0),
        (MQMO.MATCH_GROUP_ID | MQMO.MATCH_OFFSET, MQGMO.BROWSE_FIRST),
        (MQMO.MATCH_GROUP_ID, MQGMO.ALL_MSGS_AVAILABLE),
        (MQMO.MATCH_GROUP_ID, MQGMO.LOGICAL_ORDER | MQGMO.COMPLETE_MSG),
    ],
)
def test_a_put_asks_only_the_getter_that_waits_for_its_group(
    world: World, asked: list[Entry], looked_for: list[Request], match: MQMO, options: MQGMO, waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    waits = [access.wait(options, group_md(number + 1), match=match) for number in range(waiters)]
    asked.clear()
    looked_for.clear()
    for number in (waiters // 2, waiters - 1, 0):
        access.put(b"A", 0, group_md(number + 1))
        assert waits[number].message is not None
    access.put(b"of nobody", 0, group_md(waiters + 1))
    assert len(asked) == 3
    assert len(looked_for) in (0, 3)


@pytest.mark.parametrize("waiters", NUMBERS)
def test_an_incomplete_group_is_offered_to_nobody_who_wants_all_of_it(
    world: World, looked_for: list[Request], waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for _ in range(waiters):
        access.wait(MQGMO.ALL_MSGS_AVAILABLE, group_md(1), match=MQMO.MATCH_GROUP_ID)
    looked_for.clear()
    access.put(b"A", 0, group_md(1, last=False))
    assert not looked_for


@pytest.mark.parametrize("waiters", NUMBERS)
@pytest.mark.parametrize("browse", [0, MQGMO.BROWSE_FIRST], ids=["get", "browse"])
@pytest.mark.parametrize("match", [MQMO.MATCH_OFFSET, MQMO.MATCH_MSG_SEQ_NUMBER, MQMO.MATCH_MSG_TOKEN])
def test_a_put_asks_nobody_who_waits_for_another_place_or_token(
    world: World, asked: list[Entry], match: MQMO, browse: MQGMO, waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for number in range(waiters):
        md = MessageDescriptor(offset=number + 1, msg_seq_number=number + 2)
        access.wait(browse, md, match=match, token=(number + 1).to_bytes(16, "big"))
    asked.clear()
    access.put(b"A")
    assert not asked


@pytest.mark.parametrize("waiters", NUMBERS)
@pytest.mark.parametrize("browse", [0, MQGMO.BROWSE_FIRST], ids=["get", "browse"])
def test_a_put_asks_only_one_of_those_who_want_logical_order(
    world: World, asked: list[Entry], browse: MQGMO, waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for _ in range(waiters):
        access.wait(browse | MQGMO.LOGICAL_ORDER)
    asked.clear()
    access.put(b"A", 0, MessageDescriptor(msg_flags=int(MQMF.MSG_IN_GROUP), msg_seq_number=2))
    assert len(asked) <= 1


@pytest.mark.parametrize("waiters", NUMBERS)
@pytest.mark.parametrize("browse", [0, MQGMO.BROWSE_FIRST], ids=["get", "browse"])
def test_a_put_tries_each_selector_once_however_many_wait_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, browse: MQGMO, waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    world.alter_manager(MAXHANDS=100_000)
    program = world.connect()
    waits = [
        program.open("Q", ALL, f"Root.MQMD.Priority = {4 + (number == waiters - 1)}").wait(browse)
        for number in range(waiters)
    ]
    tried: list[Selector] = []
    matches: Callable[[Selector, Entry], bool] = Selector.matches

    def counted(selector: Selector, entry: Entry) -> bool:
        tried.append(selector)
        return matches(selector, entry)

    monkeypatch.setattr(Selector, "matches", counted)
    access = world.open()
    access.put(b"A", 0, MessageDescriptor(priority=5))
    assert len(tried) == 2
    assert [wait.message is not None for wait in waits[-2:]] == [False, True]
    access.put(b"B", 0, MessageDescriptor(priority=4))
    assert len(tried) == 4
    assert waits[0].message is not None


@pytest.mark.parametrize("waiters", NUMBERS)
def test_a_segment_wakes_only_the_one_who_waits_for_the_whole_message_of_that_correl_id(
    world: World, looked_for: list[Request], waiters: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    waits = [
        access.wait(MQGMO.COMPLETE_MSG, MessageDescriptor(correl_id=number_id(number + 1))) for number in range(waiters)
    ]
    looked_for.clear()
    for flags, offset in ((MQMF.SEGMENT, 0), (MQMF.LAST_SEGMENT, 1)):
        md = MessageDescriptor(correl_id=number_id(waiters), group_id=number_id(1), msg_flags=int(flags), offset=offset)
        access.put(b"A", 0, md)
    assert waits[-1].message is not None
    assert len(looked_for) == 1


@pytest.mark.parametrize("questions", [1, 2])
@pytest.mark.parametrize("waiters", NUMBERS)
def test_of_many_that_ask_the_same_only_the_first_is_asked(
    world: World, asked: list[Entry], waiters: int, questions: int
) -> None:
    world.define(MAXDEPTH=100_000)
    program = world.connect()
    accesses = [program.open("Q", ALL, f"Root.MQMD.Priority = {number + 1}") for number in range(questions)]
    for number in range(waiters):
        accesses[number % questions].wait(0, MessageDescriptor(correl_id=number_id(1)))
    asked.clear()
    program.open().put(b"A", 0, MessageDescriptor(correl_id=number_id(1)))
    assert len(asked) == questions


@pytest.mark.parametrize("hidden", NUMBERS)
@pytest.mark.parametrize("how", ["put", "got"])
@pytest.mark.parametrize("options", [0, MQGMO.SYNCPOINT, MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT])
def test_a_get_inspects_one_message_behind_any_number_of_uncommitted_ones(
    world: World, asked: list[Entry], options: MQGMO, how: str, hidden: int
) -> None:
    world.define(MAXDEPTH=100_000)
    world.alter_manager(MAXUMSGS=100_000)
    other, access = world.open(), world.open()
    other.put_all([b""] * hidden, MQPMO.SYNCPOINT if how == "put" else 0)
    if how == "got":
        for _ in range(hidden):
            other.get(MQGMO.SYNCPOINT)
    access.put(b"A")
    asked.clear()
    assert access.get(options).data == b"A"
    assert len(asked) <= 1


@pytest.mark.parametrize("depth", NUMBERS)
@pytest.mark.parametrize("match", [MQMO.MATCH_MSG_ID, MQMO.MATCH_CORREL_ID, MQMO.MATCH_MSG_TOKEN])
def test_a_get_by_an_identifier_inspects_the_message_that_carries_it(
    world: World, asked: list[Entry], match: MQMO, depth: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    tokens = []
    for number in range(depth):
        md = MessageDescriptor(msg_id=number_id(number + 1), correl_id=number_id(number + 1))
        tokens.append(access.put(b"%d" % number, 0, md).entry.token)
    asked.clear()
    for number in (depth - 1, depth // 2, 0):
        md = MessageDescriptor(msg_id=number_id(number + 1), correl_id=number_id(number + 1))
        assert access.get(0, md, match=match, token=tokens[number]).data == b"%d" % number
    assert len(asked) == 3
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get(0, MessageDescriptor(correl_id=number_id(depth + 1)), match=MQMO.MATCH_CORREL_ID)
    assert len(asked) == 3


@pytest.mark.parametrize("depth", NUMBERS)
def test_a_browse_next_inspects_one_message_wherever_the_cursor_is(
    world: World, asked: list[Entry], depth: int
) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    access.put_all([b""] * depth)
    for _ in range(depth):
        access.get(MQGMO.BROWSE_NEXT)
    assert len(asked) <= depth


@pytest.mark.parametrize("depth", NUMBERS)
def test_the_messages_of_one_correl_id_are_walked_one_by_one(world: World, asked: list[Entry], depth: int) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    md = MessageDescriptor(correl_id=number_id(1))
    for _ in range(depth):
        access.put(b"", 0, md)
    asked.clear()
    for _ in range(depth):
        access.get(0, md)
    assert len(asked) == depth


@pytest.mark.parametrize("depth", NUMBERS)
def test_a_put_to_a_full_queue_walks_only_what_is_overdue(world: World, depth: int) -> None:
    queue = world.define(MAXDEPTH=depth)
    access = world.open()
    for number in range(depth):
        access.put(b"", 0, MessageDescriptor(expiry=10 if number < 3 else 10_000))
    world.pass_time(2)
    walked = len(list(queue.shelf.overdue(world.now)))
    access.put(b"A")
    assert (walked, queue.depth) == (3, depth - 2)


def made(data: bytes, given: Mapping[str, Value]) -> tuple[bytes, int, MessageDescriptor]:
    """Return the arguments of `Access.put` for a message with properties."""
    md, body = with_properties(None, data, given)
    return body, 0, md


def test_the_properties_of_a_message_are_read_once_for_all_selectors(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    decode = folders.decode

    def counted(texts: Iterable[str], most: int | None = None) -> dict[str, Value]:
        read.append(1)
        return decode(texts, most)

    world.define()
    access = world.open()
    waits = [world.open(selection=f"number = {number}").wait() for number in range(100)]
    waits += [world.open(selection=f"Root.MQMD.Priority = {100 + number}").wait() for number in range(100)]
    monkeypatch.setattr(folders, "decode", counted)
    access.put(*made(b"A", {"number": 200} | {f"p{number}": number for number in range(1000)}))
    assert len(read) == 2  # to see that they can be read, and for the selectors
    access.put(*made(b"B", {"number": 50}))
    assert (waits[50].message is not None, len(read)) == (True, 4)


def test_a_selector_of_the_descriptor_reads_no_properties(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.define()
    access, wait = world.open(), world.open(selection="Root.MQMD.Priority = 9").wait()
    monkeypatch.setattr(message, "decoded", None)
    access.put(*made(b"A", {"number": 1}))
    assert wait.waits


def test_what_a_selector_saw_last_is_all_that_is_remembered(world: World) -> None:
    world.define()
    access = world.open()
    world.open(selection="number = 5").wait()
    for number in range(3):
        access.put(*made(b"A", {"number": number}))
    assert properties.decoded.cache_info().currsize == 1


def test_a_call_looks_at_no_more_than_so_many_messages(world: World, asked: list[Entry]) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for _ in range(2 * LOOKS_AT_ONCE):
        access.put(b"", 0, MessageDescriptor(correl_id=number_id(7)))
    asked.clear()
    md = MessageDescriptor(correl_id=number_id(7), msg_seq_number=2)
    gmo = GetMessageOptions(match_options=int(MQMO.MATCH_CORREL_ID | MQMO.MATCH_MSG_SEQ_NUMBER))
    found = world.manager.get(access.handle, access.queue, md, gmo, None, world.now)
    assert isinstance(found, Search)
    assert len(asked) <= LOOKS_AT_ONCE


def test_a_get_of_any_message_ends_the_search_that_nobody_goes_on_with(world: World) -> None:
    world.define(MAXDEPTH=100_000)
    access = world.open()
    for _ in range(2 * LOOKS_AT_ONCE):
        access.put(b"", 0, MessageDescriptor(correl_id=number_id(7)))
    md = MessageDescriptor(correl_id=number_id(7), msg_seq_number=2)
    gmo = GetMessageOptions(match_options=int(MQMO.MATCH_CORREL_ID | MQMO.MATCH_MSG_SEQ_NUMBER))
    assert isinstance(world.manager.get(access.handle, access.queue, md, gmo, None, world.now), Search)
    assert access.queue.shelf.views
    world.manager.get(access.handle, access.queue, None, GetMessageOptions(), None, world.now)
    assert not access.queue.shelf.views
