"""What the steps of the core let happen is carried out at once, all of it, in one order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.queues.effects import Effects
from broker.engine.context import EngineContext
from tests.engine.bench import opened

if TYPE_CHECKING:
    from collections.abc import Callable


class Unlocked:
    """In place of a message that is to be offered: it tells when it is looked at, and nobody may have it."""

    def __init__(self, seen: Callable[[], None]) -> None:
        self._seen = seen

    @property
    def state(self) -> None:
        self._seen()


async def test_effects_are_carried_out_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as bench:
        context, effects = bench.manager.context, bench.manager.core.effects
        done: list[str] = []

        def sends(name: str) -> Callable[..., None]:
            def send(messages: Any, over: Callable[[], None]) -> None:
                done.append(name)
                over()

            return send

        monkeypatch.setattr(context.outbox, "_write_off", sends("expired"))
        monkeypatch.setattr(context.outbox, "_publish", sends("generated"))
        monkeypatch.setattr("broker.engine.outbox.logger.warning", lambda *_: done.append("lost"))
        monkeypatch.setattr(context.monitors, "wake", lambda: done.append("posted"))
        owner = SimpleNamespace(granted=lambda _: done.append("granted"), ended=lambda _: done.append("ended"))
        waiter: Any = SimpleNamespace(owner=owner)
        anything: Any = SimpleNamespace(q_name="Q", md=SimpleNamespace(feedback=0))
        unlocked: Any = Unlocked(lambda: done.append("offered"))

        effects.to_offer.append(unlocked)
        effects.posted = True
        effects.lost.append((anything, KeyError()))  # type: ignore[arg-type]
        effects.generated.append(anything)
        effects.expired.append(anything)
        effects.ended.append((waiter, 0))
        effects.grants.append((waiter, anything))
        context.perform()
        assert done == ["granted", "ended", "expired", "generated", "lost", "offered", "posted"]
        assert not effects
        context.perform()
        assert len(done) == 7


@pytest.mark.parametrize("kind", sorted({*Effects.__slots__} - {"held", "unrecorded"}))
def test_effects_of_each_kind_are_carried_out(kind: str) -> None:
    class Drained(Exception):
        """The effects are about to be carried out."""

    def drain(now: float) -> Effects:
        raise Drained

    effects = Effects()
    assert not effects
    setattr(effects, kind, [None])
    assert effects
    core = SimpleNamespace(effects=effects, drain=drain)
    context: Any = SimpleNamespace(core=core, clock=SimpleNamespace(time=lambda: 0.0))
    with pytest.raises(Drained):
        EngineContext.perform(context)
