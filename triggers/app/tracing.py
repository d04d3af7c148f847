"""Trace context from who puts a message to who handles it (handlers rule 13.3).

The context of the W3C goes with the message, as the properties `traceparent` and `tracestate`, and so stays with it
through retries, the dead-letter queue and a replay. An attempt is a span of kind CONSUMER: of one message it continues
the putter's trace and links to it, of a batch it has a link a message. Names and attributes are those of
OpenTelemetry's messaging conventions, 1.24 by default, the newer ones where `OTEL_SEMCONV_STABILITY_OPT_IN` says
`messaging` or `messaging/dup`.

OpenTelemetry is never imported here before the program has done so: without it there is no tracer, and nothing to say.
Its API is in the extra `telemetry`.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker import Message

NAMES: Final = ("traceparent", "tracestate")
"""The properties."""

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"

SYSTEM: Final = "evermq"

_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


def in_use() -> bool:
    """True if the program has loaded OpenTelemetry's tracing."""
    return "opentelemetry.trace" in sys.modules


def with_context(properties: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The properties of a message that is about to be put, with the context of the span that is current. Those that the
    program gave itself stay.
    """
    if not in_use():
        return properties
    context: dict[str, str] = {}
    _propagator().inject(context)
    return {**context, **(properties or {})} if context else properties


def attempt_span(queue: str, handler: str, messages: Sequence[Message]) -> AbstractContextManager[object]:
    """The span of an attempt, current while it is entered. An exception that leaves it is recorded."""
    if not in_use():
        return _NOTHING
    from opentelemetry import trace

    contexts = [_context(message) for message in messages]
    spans = [trace.get_current_span(context).get_span_context() for context in contexts]
    links = [trace.Link(span) for span in spans if span.is_valid]
    attributes = _attributes(queue, messages)
    attributes["evermq.handler"] = handler
    return trace.get_tracer("evermq").start_as_current_span(
        f"process {queue}" if _opted_in() else f"{queue} process",
        context=contexts[0] if len(messages) == 1 else None,
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=links,
    )


def _attributes(queue: str, messages: Sequence[Message]) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {"messaging.system": SYSTEM, "messaging.destination.name": queue}
    opted = _opted_in()
    if opted:
        attributes |= {"messaging.operation.type": "process", "messaging.operation.name": "process"}
    if opted in ("", "messaging/dup"):
        attributes["messaging.operation"] = "process"
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
    else:
        md = messages[0].md
        attributes["messaging.message.id"] = md.msg_id.hex()
        attributes["messaging.message.body.size"] = messages[0].length
        if any(md.correl_id):
            attributes["messaging.message.conversation_id"] = md.correl_id.hex()
    return attributes


def _opted_in() -> str:
    """Return what the program has opted in to: `messaging/dup`, which counts for more, `messaging`, or nothing."""
    asked = {each.strip() for each in os.environ.get(OPT_IN, "").split(",")}
    return next((each for each in ("messaging/dup", "messaging") if each in asked), "")


def _context(message: Message) -> Any:
    """The context that came with a message; an empty one where none did."""
    from opentelemetry.context import Context

    found = {name: str(value) for name in NAMES if (value := message.properties.get(name)) is not None}
    return _propagator().extract(found, context=Context())


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
