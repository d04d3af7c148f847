"""Trace context from who puts a message to who handles it (handlers rule 13.3)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from broker import Message, QueueManager
from broker.mqi import MQOO, MessageDescriptor
from triggers.app import tracing

CORREL_ID = b"\x07" * 24

EXPORTER = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[trace.Tracer]:
    """The tracer of a program, and of what is imported with it."""
    monkeypatch.setattr(trace, "get_tracer", lambda name: _PROVIDER.get_tracer(name))
    EXPORTER.clear()
    yield _PROVIDER.get_tracer("program")
    EXPORTER.clear()


async def put_and_get(*properties: dict[str, object], correl_id: bytes = bytes(24)) -> list[Message]:
    """Messages with these properties, as they come from a queue."""
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS)", check=True)
        async with connection.open("ORDERS", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
            for each in properties:
                await queue.put(b"5 chairs", MessageDescriptor(correl_id=correl_id), properties=each)  # type: ignore[arg-type]
            return await queue.get_many(len(properties))


def spans() -> list[ReadableSpan]:
    return list(EXPORTER.get_finished_spans())


async def test_a_message_bears_the_context_of_the_span_it_was_put_in(tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("web request") as putting:
        properties = tracing.with_context({"colour": "red"})
    assert properties is not None
    assert set(properties) == {"colour", "traceparent"}
    trace_id = f"{putting.get_span_context().trace_id:032x}"
    assert str(properties["traceparent"]).split("-")[1] == trace_id


def test_what_the_program_gave_itself_stays(tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("web request"):
        assert tracing.with_context({"traceparent": "mine"}) == {"traceparent": "mine"}


def test_outside_of_spans_no_property_is_made(tracer: trace.Tracer) -> None:
    assert tracing.with_context(None) is None
    assert tracing.with_context({"colour": "red"}) == {"colour": "red"}


async def test_an_attempt_continues_the_trace_of_the_putter_and_links_to_it(tracer: trace.Tracer) -> None:
    with tracer.start_as_current_span("web request") as putting:
        (message,) = await put_and_get(dict(tracing.with_context({}) or {}), correl_id=CORREL_ID)
    with tracing.attempt_span("ORDERS", "shop:ship", [message]):
        inside = tracing.with_context(None)
    request, attempt = spans()
    assert attempt.name == "ORDERS process"
    assert attempt.kind is trace.SpanKind.CONSUMER
    assert attempt.context.trace_id == request.context.trace_id
    assert [link.context.span_id for link in attempt.links] == [putting.get_span_context().span_id]
    assert inside is not None, "what the handler puts bears the attempt's context"
    assert str(inside["traceparent"]).split("-")[2] == f"{attempt.context.span_id:016x}"
    assert dict(attempt.attributes or {}) == {
        "messaging.system": "evermq",
        "messaging.destination.name": "ORDERS",
        "messaging.operation": "process",
        "messaging.message.id": message.md.msg_id.hex(),
        "messaging.message.conversation_id": CORREL_ID.hex(),
        "messaging.message.body.size": 8,
        "evermq.handler": "shop:ship",
    }


async def test_a_batch_has_a_link_a_message_and_a_trace_of_its_own(tracer: trace.Tracer) -> None:
    put = []
    for _ in range(2):
        with tracer.start_as_current_span("web request"):
            put.append(dict(tracing.with_context({}) or {}))
    messages = await put_and_get(*put, {})
    with tracing.attempt_span("ORDERS", "shop:ship", messages):
        pass
    first, second, attempt = spans()
    assert [link.context.span_id for link in attempt.links] == [first.context.span_id, second.context.span_id]
    assert attempt.parent is None
    assert (attempt.attributes or {})["messaging.batch.message_count"] == 3


@pytest.mark.parametrize(
    ("asked", "name", "old", "new"),
    [
        ("http", "ORDERS process", True, False),
        ("messaging", "process ORDERS", False, True),
        ("http, messaging/dup,messaging", "process ORDERS", True, True),
    ],
)
async def test_the_newer_names_are_opted_in_to(
    tracer: trace.Tracer, monkeypatch: pytest.MonkeyPatch, asked: str, name: str, *, old: bool, new: bool
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", asked)
    with tracing.attempt_span("ORDERS", "shop:ship", await put_and_get({})):
        pass
    (attempt,) = spans()
    attributes = attempt.attributes or {}
    assert attempt.name == name
    assert ("messaging.operation" in attributes, "messaging.operation.name" in attributes) == (old, new)
    assert ("messaging.operation.type" in attributes) == new


async def test_an_exception_of_the_handler_is_in_the_span(tracer: trace.Tracer) -> None:
    messages = await put_and_get({})
    with pytest.raises(ValueError, match="no such item"), tracing.attempt_span("ORDERS", "shop:ship", messages):
        raise ValueError("no such item")
    (attempt,) = spans()
    assert attempt.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in attempt.events] == ["exception"]


async def test_a_context_that_cannot_be_read_is_none(tracer: trace.Tracer) -> None:
    with tracing.attempt_span("ORDERS", "shop:ship", await put_and_get({"traceparent": "nonsense", "tracestate": 7})):
        pass
    (attempt,) = spans()
    assert (attempt.parent, list(attempt.links)) == (None, [])


def test_h13_6_a_program_without_tracing_does_not_load_it() -> None:
    program = (
        "import sys; from triggers.app import tracing; import triggers\n"
        "assert tracing.with_context(None) is None\n"
        "with tracing.attempt_span('Q', 'h', []): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
