"""What a handler is given, by the annotations of its parameters (handlers rule 8.1)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection, Message  # read when the program runs, as those of any handler
from broker.mqi import MQOO
from tests.handlers.apps import Seen, Shop
from triggers import App, Attempt, Group, Retry, Tick, TriggerMessage
from triggers.app.handler import handler

if TYPE_CHECKING:
    from collections.abc import Callable


def declared(function: Callable[..., Any], **options: Any) -> None:
    handler(function, "Q", options, {}).complete()  # type: ignore[arg-type]


def refused(function: Callable[..., Any], **options: Any) -> str:
    """Return the text about a function that is no handler; it begins with the place."""
    with pytest.raises(TypeError) as raised:
        declared(function, **options)
    text = str(raised.value)
    code = function.__code__
    assert text.startswith(f"{__name__}.{function.__qualname__} ({code.co_filename}, line {code.co_firstlineno}): ")
    return text.partition(": ")[2]


async def test_a_handler_is_given_what_its_annotations_say() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q", retry=Retry(4))
        async def handle(
            attempt: Attempt,
            app: App,
            body: dict[str, int],
            message: Message,
            connection: Connection,
            trigger: TriggerMessage,
            verbose: bool = False,
            *others: str,
            **more: str,
        ) -> None:
            seen.add((attempt, app, body, message.data, trigger.q_name, verbose, others, more))
            async with connection.open("OUT", MQOO.OUTPUT) as queue:
                await queue.put(b"done")

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put("Q", {"a": 1})
            [(attempt, *reported)] = await seen.so_many(1)
            assert reported == [shop.app, {"a": 1}, b'{"a":1}', "Q", False, (), {}]
            assert (attempt.number, attempt.limit, attempt.last, attempt.q_name) == (1, 5, False, "Q")
            assert (await shop.get("OUT")).data == b"done"


async def test_parameters_may_be_given_by_name_alone() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q")
        async def handle(body: str, /, *, attempt: Attempt) -> None:
            seen.add((body, attempt.number))

        async with shop.running():
            await shop.app.put("Q", "a")
            assert await seen.so_many(1) == [("a", 1)]


async def test_methods_partials_and_objects_are_handlers_too() -> None:
    async with Shop() as shop:
        seen = Seen()

        class Clerk:
            async def handle(self, body: str) -> None:
                seen.add(("method", body))

            async def __call__(self, body: str) -> None:
                seen.add(("object", body))

        async def common(body: str, kind: str = "common") -> None:
            seen.add((kind, body))

        shop.app.handler("Q1")(Clerk().handle)
        shop.app.handler("Q2")(Clerk())
        shop.app.handler("Q3")(partial(common, kind="partial"))
        async with shop.running():
            for q_name in ("Q1", "Q2", "Q3"):
                await shop.app.put(q_name, "a")
            assert sorted(await seen.so_many(3)) == [("method", "a"), ("object", "a"), ("partial", "a")]


def test_h8_3_an_annotation_that_cannot_be_read_is_refused_with_its_place() -> None:
    class Unknown:
        pass

    def of_unknown(order: Unknown) -> None: ...

    of_unknown.__annotations__["order"] = Unknown
    text = refused(of_unknown)
    assert re.match(r"order: .*Unknown has no form in a body; what it may be made of: str, int", text)

    def later(order: Defined) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    made = handler(later, "Q", {}, {})  # not yet: it may be defined when the app starts
    with pytest.raises(TypeError, match=r"line \d+\): name 'Defined' is not defined: .* outside `if TYPE_CHECKING:`"):
        made.complete()


async def test_a_class_may_be_defined_after_its_handler() -> None:
    async with Shop() as shop:
        seen = Seen()

        async def handle(body: Later) -> None:  # type: ignore[name-defined]  # noqa: F821
            seen.add(body)

        shop.app.handler("Q")(handle)
        handle.__globals__["Later"] = list[int]
        try:
            async with shop.running():
                await shop.app.put("Q", [1])
                assert await seen.so_many(1) == [[1]]
        finally:
            del handle.__globals__["Later"]


def test_a_function_that_cannot_be_called_with_a_message_is_refused() -> None:
    def nothing() -> None: ...
    def two(a: str, b: str) -> None: ...
    def bare(a) -> None: ...  # type: ignore[no-untyped-def]
    def tick(body: str, tick: Tick) -> None: ...
    def many(bodies: list[str]) -> None: ...
    def one(body: str) -> None: ...
    def group(bodies: Group[str]) -> None: ...
    def messages(bodies: list[Message]) -> None: ...
    def message(message: Message) -> None: ...
    def batch_of_one(message: Message, bodies: list[str]) -> None: ...

    assert "it takes neither a body nor its Message; a handler takes, by annotation:" in refused(nothing)
    assert refused(two).startswith("it has two bodies, a and b;")
    assert refused(bare).startswith("a has no annotation;")
    assert refused(tick) == "tick: a Tick is for periodic work, @app.every and @app.cron"
    assert refused(one, batch=5) == "body: batch=5 is for a body of list[T]"
    assert refused(message, batch=5) == "message: a batch has more than one message: list[Message]"
    assert refused(batch_of_one, batch=5) == "message: a batch has more than one message: list[Message]"
    assert refused(group, batch=5) == "bodies: a group is whole, whatever its size: leave out batch"
    assert refused(messages) == "bodies: list[Message] is a batch: batch=N says of how many"
    for function, options in ((many, {}), (many, {"batch": 5}), (messages, {"batch": 5}), (message, {}), (group, {})):
        declared(function, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"retry": -1}, "Retry(-1): the number of retries, 0 or more, or None for ever"),
        ({"retry": "5"}, "retry='5': a Retry, or the number of retries"),
        ({"dead_letter": "Q"}, "dead_letter='Q': the queue itself would be given its own dead letters"),
        ({"dead_letter": "A B"}, "'A B' is not a name of a queue: 1 to 48 of A-Z a-z 0-9 % / _ ."),
        ({"concurrency": 0}, "concurrency=0: an integer of at least 1"),
        ({"batch": 0}, "batch=0: an integer of at least 1"),
        ({"total": -1}, "total=-1: an integer of at least 0"),
        ({"timeout": 0}, "timeout=0: seconds, above 0, or None"),
        ({"batch_wait": -1}, "batch_wait=-1: seconds, 0 or more"),
        ({"rate": "100"}, 'rate: above 0, such as "100/s", "5/m", "20/h", or how many a second'),
        ({"traceback": 1.5}, "traceback=1.5: an integer of at least 0"),
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_with_the_place(options: Any, text: str) -> None:
    def one(body: str) -> None: ...

    with pytest.raises(ValueError, match=re.escape(f"): {text}")):
        handler(one, "Q", options)


def test_an_option_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    def one(body: str) -> None: ...

    with pytest.raises(TypeError, match=r"unknown option retries; there are retry, dead_letter, concurrency"):
        handler(one, "Q", {"retries": 5})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match=r"a handler of Q is a function, not 'one'"):
        handler("one", "Q", {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'the name of a queue is a str, as in @app.handler\("ORDERS"\)'):
        App("mq://127.0.0.1:1").handler(one)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("retry", "attempts", "waits", "doubles"),
    [
        (None, 0, (0.5, 600.0), True),
        (0, 1, (0.1, 60.0), True),
        (Retry(2, 5), 3, (5,), False),
        (Retry(2, (1, 5)), 3, (1, 5), True),
        (Retry(2, [1, 10]), 3, (1, 10), False),
        (Retry(None), None, (0.1, 60.0), True),
    ],
    ids=str,
)
def test_how_it_is_retried_is_told_to_the_queue_manager(
    retry: Any, attempts: int | None, waits: tuple[float, ...], doubles: bool
) -> None:
    def one(body: str) -> None: ...

    made = handler(one, "Q", {"retry": retry, "rate": "30/m", "total": 5, "traceback": 0})
    terms = made.options
    assert (terms.attempts, terms.backoff, terms.doubles) == (attempts, waits, doubles)
    assert (terms.rate, terms.total, terms.traceback) == (0.5, 5, 0)
    assert terms.handler == f"{__name__}:{one.__qualname__}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(5, backoff=-1),
        lambda: Retry(5, backoff=(5, 1)),
        lambda: Retry(5, backoff=(1, 2, 3)),  # type: ignore[arg-type]
        lambda: Retry(5, backoff=[]),
        lambda: Retry(5, crashes=0),
        lambda: Retry(1.5),  # type: ignore[arg-type]
    ],
)
def test_a_retry_that_says_nothing_is_refused(make: Callable[[], Retry]) -> None:
    with pytest.raises(ValueError, match=r"^Retry\("):
        make()


def test_members_of_groups_keep_their_order_under_a_plain_handler() -> None:
    def one(body: str) -> None: ...
    def many(bodies: list[str]) -> None: ...
    def group(bodies: Group[str]) -> None: ...

    ordered = [(one, {}, "group_id"), (many, {"batch": 5}, ""), (group, {}, ""), (one, {"order_by": "key"}, "key")]
    for function, options, order_by in ordered:
        terms = handler(function, "Q", options).options  # type: ignore[arg-type]
        assert (terms.order_by, terms.groups) == (order_by, function is group)
