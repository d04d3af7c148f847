"""The exceptions of handlers in a test, to be raised there, and the outcomes in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from triggers.serving.outcomes import Ended, OutcomeLog, ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import Clock
    from broker.mqi import Settled, Settlement
    from triggers.serving.run import Run

_FAILED: Final = ("retry", "dead", "held")
"""The outcomes whose exceptions are raised in a test."""


class Event(NamedTuple):
    """An outcome: of which message of which queue, at which of its attempts, at how many seconds of the test."""

    at: float
    outcome: str
    queue: str
    msg_id: bytes
    attempt: int


class TestLog(OutcomeLog):
    """The log of the workers of a test. `events` has the outcomes, `failed` the exceptions not reported yet."""

    __test__ = False  # it is no class of tests

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.events: list[Event] = []
        self.failed: list[BaseException] = []
        self._at = clock.monotonic
        self._collected: list[list[BaseException]] = []

    def reported(self, run: Run, settlement: Settlement, settled: Settled | None) -> None:
        """Log, and keep: whatever the level is."""
        self.write(ended(run, settlement, settled))

    def write(self, ended: Ended) -> None:
        """Log, and keep."""
        super().write(ended)
        self.events.append(Event(self._at(), ended.outcome, ended.queue, ended.msg_id, ended.attempt))
        if ended.outcome in _FAILED and ended.error is not None:
            (self._collected[-1] if self._collected else self.failed).append(ended.error)

    def collect(self, into: list[BaseException]) -> None:
        """Put what is not reported yet, and what is raised from now on, there."""
        into += self.failed
        self.failed = []
        self._collected.append(into)

    def collect_no_more(self) -> None:
        """End the last `collect`."""
        self._collected.pop()

    def raise_failures(self) -> None:
        """Raise what handlers raised: the exception itself where it is only one, otherwise a group."""
        failed, self.failed = self.failed, []
        if len(failed) == 1:
            raise failed[0]
        if failed:
            raise _group(failed)


def _group(failed: Sequence[BaseException]) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup(f"handlers raised {len(failed)} exceptions", failed)
