"""Traces and middleware of an app that runs (handlers rules 13.3, 13.4)."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry import trace

from tests.handlers.test_tracing import EXPORTER, tracer
from triggers import App, Delivery, Middleware, Retry

__all__ = ["tracer"]


class Checks(Middleware):
    """Refuses what the handler did, the first time."""

    def __init__(self) -> None:
        self.reported: list[str] = []

    async def after(self, delivery: Delivery) -> None:
        await shop.put("SHIPPED", "by the middleware")
        if delivery.attempt.number == 1:
            raise ValueError("not so")

    async def failed(self, delivery: Delivery, error: BaseException) -> None:
        self.reported.append(f"{delivery.q_name} {delivery.attempt.number} {error}")


checks = Checks()
shop = App("mq://127.0.0.1:1", name="shop", middleware=[checks])


@shop.handler("ORDERS", retry=Retry(2, backoff=1))
async def ship(order: str) -> None:
    await shop.put("SHIPPED", order)


async def test_h13_5_what_after_raises_is_not_committed() -> None:
    checks.reported.clear()
    async with shop.test() as t:
        async with t.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(SHIPPED)", check=True)
        await t.put("ORDERS", "5 chairs")
        with pytest.raises(ValueError, match="not so"):
            await t.idle()
        assert await t.messages("SHIPPED") == []
        await t.advance(1)
        assert await t.messages("SHIPPED") == ["5 chairs", "by the middleware"]
    assert checks.reported == ["ORDERS 1 not so"]


async def test_h13_3_one_trace_goes_from_the_putter_over_a_retry_and_a_replay(tracer: trace.Tracer) -> None:
    app = App("mq://127.0.0.1:1", name="traced")
    attempts = []

    @app.handler("ORDERS", retry=Retry(1, backoff=1))
    async def ship(order: str) -> None:
        attempts.append(order)
        if len(attempts) < 3:
            raise ValueError(order)

    async with app.test() as t:
        with tracer.start_as_current_span("web request"):
            await t.put("ORDERS", "5 chairs")
        with t.failures() as seen:
            await t.idle(delayed=True)
        assert len(seen) == 2
        (letter,) = await t.browse("ORDERS.DEAD")
        kept = letter.properties["traceparent"]
        await t.put("ORDERS", "5 chairs", properties={"traceparent": kept})  # as a replay puts it
        await t.idle()
    request, *others = EXPORTER.get_finished_spans()
    assert [span.name for span in others] == ["ORDERS process"] * 3
    assert {span.context.trace_id for span in others} == {request.context.trace_id}
    assert [span.status.status_code for span in others[:2]] == [trace.StatusCode.ERROR] * 2
    assert {link.context.span_id for span in others for link in span.links} == {request.context.span_id}
