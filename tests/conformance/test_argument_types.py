"""Misuse of the interface is a TypeError or ValueError that says what to do, and changes nothing."""

from __future__ import annotations

import array
import json
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager, connect
from broker.groups import GroupGetter
from broker.mqi import MQGMO, MQOO, MQPMO, GetMessageOptions, MessageDescriptor, PutMessageOptions
from tests.conformance.expect import drained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from broker import Connection, Queue

ASYNC = MQPMO.ASYNC_RESPONSE
NO_DATA: list[Any] = [5, True, 1.5, None, [1, 2], {"a": 1}, {1}, object()]
no_data = pytest.mark.parametrize("data", NO_DATA, ids=lambda data: type(data).__name__)


@contextmanager
def refused(kind: type[Exception], begins: str, contains: str = "") -> Iterator[None]:
    """The call inside raises this kind of error, with this text."""
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value).startswith(begins)
    assert contains in str(caught.value)


@no_data
async def test_data_that_is_neither_bytes_nor_text_is_refused(connection: Connection, queue: Queue, data: Any) -> None:
    calls = queue.put(data), connection.put1("Q", data), queue.put(data, persistence=1), queue.put(data, options=ASYNC)
    for call in calls:
        with refused(TypeError, f"data is bytes-like or str, not {type(data).__name__}; json.dumps()"):
            await call
    assert await drained(queue) == []


@no_data
@pytest.mark.parametrize("options", [0, ASYNC])
async def test_a_batch_names_the_message_whose_data_is_none(queue: Queue, data: Any, options: int) -> None:
    name = "data" if options else "messages[1]"
    with refused(TypeError, f"{name} is bytes-like or str, not {type(data).__name__}"):
        await queue.put_many([b"A", data], options=options)
    with refused(TypeError, "data is " if options else "messages[0] is "):
        await queue.put_many([(data, None)], options=options)


async def test_data_is_whatever_is_bytes_like_or_text(queue: Queue) -> None:
    numbers = array.array("H", [1, 2])
    kinds: list[Any] = [b"A", bytearray(b"B"), memoryview(b"C.C.")[::2], numbers, "ä", json.dumps({"a": 1})]
    for data in kinds:
        await queue.put(data)
        await queue.put_many([data])
    expected = [b"A", b"B", b"CC", numbers.tobytes(), "ä".encode(), b'{"a": 1}']
    assert await drained(queue) == [data for data in expected for _ in range(2)]


@pytest.mark.parametrize("string", ["hello", b"hello", bytearray(b"hello"), memoryview(b"hello")])
async def test_a_string_is_not_many_messages(queue: Queue, string: Any) -> None:
    kind = type(string).__name__
    with refused(TypeError, f"put_many takes an iterable of messages, not one {kind}: ", "put_many([data])"):
        await queue.put_many(string)
    assert await drained(queue) == []


@pytest.mark.parametrize("item", [(b"A",), (b"A", None, None), (b"A", {"priority": 1}), (b"A", b"B")])
@pytest.mark.parametrize("options", [0, ASYNC])
async def test_a_message_of_a_batch_is_data_or_a_pair(queue: Queue, item: Any, options: int) -> None:
    with refused(TypeError, "messages[0] is data, or a pair of data and MessageDescriptor, not (bytes"):
        await queue.put_many([item], options=options)


@pytest.mark.parametrize("md", [{"priority": 1}, b"id", PutMessageOptions()])
async def test_a_descriptor_is_a_descriptor(connection: Connection, queue: Queue, md: Any) -> None:
    puts = queue.put(b"A", md), queue.put_many([b"A"], md), connection.put1("Q", b"A", md)
    for call in (*puts, queue.get(md), queue.get_many(1, md)):
        with refused(TypeError, f"md is a MessageDescriptor or None, not {type(md).__name__}"):
            await call


@pytest.mark.parametrize("options", ["SYNCPOINT", 1.0, True, None, [MQPMO.SYNCPOINT], MessageDescriptor()])
async def test_options_are_flags_or_the_structure_of_their_call(
    connection: Connection, queue: Queue, options: Any
) -> None:
    async with connection.unit_of_work():
        for put in (queue.put(b"", options=options), queue.put_many([], options=options)):
            with refused(TypeError, "options is MQPMO flags or PutMessageOptions, not "):
                await put
        for get in (queue.get(options=options), queue.get_many(1, options=options)):
            with refused(TypeError, "options is MQGMO flags or GetMessageOptions, not "):
                await get
    with refused(TypeError, "options is MQOO flags, such as MQOO.INPUT_SHARED | MQOO.OUTPUT, not "):
        connection.open("Q", options)


async def test_the_structure_of_the_other_call_is_refused(queue: Queue) -> None:
    with refused(TypeError, "options is MQPMO flags or PutMessageOptions, not GetMessageOptions"):
        await queue.put(b"", options=GetMessageOptions())  # type: ignore[arg-type]  # which is the point
    with refused(TypeError, "options is MQGMO flags or GetMessageOptions, not PutMessageOptions"):
        await queue.get(options=PutMessageOptions())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [5, None, b"Q"])
async def test_a_name_is_text_or_a_descriptor(connection: Connection, name: Any) -> None:
    with refused(TypeError, "the name is a str or an ObjectDescriptor, not "):
        connection.open(name, MQOO.OUTPUT)
    with refused(TypeError, "the name is a str or an ObjectDescriptor, not "):
        await connection.put1(name, b"")


@pytest.mark.parametrize("wait", ["5", [5], b"5", {}])
async def test_a_wait_is_a_number(queue: Queue, wait: Any) -> None:
    for get in (queue.get(wait=wait), queue.get_many(1, wait=wait), anext(queue.messages(wait=wait))):
        with refused(TypeError, "wait is a number of seconds, not "):
            await get


@pytest.mark.parametrize("wait", [math.nan, -math.inf, -1, -0.0001, -0.001, 2**31 / 1000, 1e300])
async def test_a_wait_is_not_negative_and_fits_its_field(connection: Connection, queue: Queue, wait: float) -> None:
    """-0.001 s would be -1 ms, which means for ever."""
    for get in (queue.get(wait=wait), queue.get_many(1, wait=wait)):
        with refused(ValueError, f"wait={wait}: 0 to 2147483.647 seconds, or float('inf') for ever"):
            await get
    with refused(ValueError, f"wait={wait}"):
        GroupGetter(connection, "Q", "ST", messages_per_unit=1, wait=wait)


async def test_the_longest_waits(connection: Connection, queue: Queue) -> None:
    await queue.put_many([b"A", b"B", b"C"])
    for wait, interval in ((0, 0), (0.0015, 2), ((2**31 - 1) / 1000, 2**31 - 1), (math.inf, -1)):
        assert connection.get_options(MQGMO.NO_SYNCPOINT, wait).wait_interval == interval
    for wait in (0, (2**31 - 1) / 1000, math.inf):
        await queue.get(wait=wait)


def connection_to_be() -> Any:
    return connect("mq://127.0.0.1")


ENTER_MANAGER = "async with QueueManager.open"
ENTER_CONNECTION = "async with broker.connect"


@pytest.mark.parametrize(
    ("use", "reported"),
    [
        (lambda manager: manager.connect(), ENTER_MANAGER),
        (lambda manager: manager.status(), ENTER_MANAGER),
        (lambda manager: connection_to_be().open("Q", MQOO.OUTPUT), ENTER_CONNECTION),
        (lambda manager: connection_to_be().put1("Q", b""), ENTER_CONNECTION),
        (lambda manager: connection_to_be().unit_of_work(), ENTER_CONNECTION),
    ],
)
def test_what_has_not_been_entered_says_so(use: Callable[[QueueManager], object], reported: str) -> None:
    with refused(RuntimeError, "", reported):
        use(QueueManager.open(name="QM1"))


async def test_a_manager_not_entered_neither_quiesces_nor_stops() -> None:
    manager = QueueManager.open(name="QM1")
    for call in (manager.quiesce(1.0), manager.stopped()):
        with refused(RuntimeError, "QM1 is not open yet"):
            await call


async def test_connect_has_nothing_of_a_connection() -> None:
    assert not hasattr(connection_to_be(), "no_such_method")


def test_the_first_argument_of_open_is_not_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(ValueError, "there is no file QM.1: ", "QueueManager.open(name='QM.1', data=...)"):
        QueueManager.open("QM.1")
    for path in ("broker.toml", "conf/QM1", str(tmp_path / "QM1")):  # these are meant as files
        with refused(ValueError, path, "no such file or directory"):
            QueueManager.open(path)
    (tmp_path / "QM1").write_text('[queue_manager]\nname = "QM1"\n')
    assert QueueManager.open("QM1").name == "QM1"
