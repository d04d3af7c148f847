"""The handling of a message: the end of the delay that its put asked for, the failure of its last attempt
(`docs/rules/handlers.md`), and its steps, which the store keeps apart.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

if TYPE_CHECKING:
    from broker.core.message.steps import KeptSteps

ERROR_BYTES: Final = 1024
"""Of the text of an exception, so much is kept with the message."""


class HistoryPlan(NamedTuple):
    """The queue for the record of what becomes of the message, for how many seconds that is kept, and when the last
    attempt began (seconds since 1970; 0: none has) and for how many seconds it ran. `key` is the value by which its
    handler orders the messages.
    """

    q_name: str
    span: float
    began: float
    ran: float = 0.0
    key: str | int | float | bool | None = None


@dataclass(slots=True)
class FailureRecord:
    """A record of the failed attempts to handle a message. Instants are in seconds since 1970.

    `quarantined`: it was in flight when its worker went, and `exclusive` without any other beside it. `crashes` have
    been charged to it. `why`, `feedback`, `exception`, `error`, `traceback`, `handler` and `worker` are of the last
    attempt. `dead`: the message goes to the dead-letter queue `target`, with an MQDLH if `headed`, as soon as that
    takes it; `tries` tells how often that has failed, and `refusal` why it did last. `history` is that of the handler.
    """

    handler: str = ""
    worker: str = ""
    why: str = ""
    exception: str = ""
    error: str = ""
    traceback: str = ""
    first_failed: float = 0.0
    last_failed: float = 0.0
    feedback: int = 0
    crashes: int = 0
    quarantined: bool = False
    dead: bool = False
    tries: int = 0
    target: str = ""
    headed: bool = False
    refusal: str = ""
    exclusive: bool = False
    history: HistoryPlan | None = None

    def fields(self) -> tuple[object, ...]:
        """All of it, without the history where there is none."""
        fields = astuple(self)
        return fields if self.history is not None else fields[:-1]

    @staticmethod
    def of(fields: list[Any]) -> FailureRecord:
        """Return the record that has these `fields`."""
        record = FailureRecord(*fields)
        if record.history is not None:
            record.history = HistoryPlan(*record.history)
        return record


class Handling:
    """`not_before`: the message is DELAYED until this instant (seconds since 1970; 0: it is not delayed)."""

    __slots__ = ("failure", "not_before")

    steps: KeptSteps | None = None  # room for them has a SteppedHandling alone

    def __init__(self, not_before: float = 0.0, failure: FailureRecord | None = None) -> None:
        self.not_before = not_before
        self.failure = failure

    def pack(self) -> bytes:
        """As `MessageRow.handling` keeps it."""
        fields = () if self.failure is None else self.failure.fields()
        packed: bytes = msgpack.packb((self.not_before, *fields))
        return packed

    @staticmethod
    def unpack(packed: bytes) -> Handling:
        """Return the handling that `pack` has packed."""
        not_before, *fields = msgpack.unpackb(packed)
        return Handling(not_before, FailureRecord.of(fields) if fields else None)

    @property
    def left(self) -> Handling | None:
        """The rest of it when the message is not delayed any more; None: nothing."""
        return self if self.failure is not None or self.steps is not None else None

    def __repr__(self) -> str:
        return f"<Handling {self.not_before} {self.failure}>"


class SteppedHandling(Handling):
    """That of a message for which handlers have finished steps."""

    __slots__ = ("steps",)

    def __init__(self, not_before: float, failure: FailureRecord | None, steps: KeptSteps) -> None:
        super().__init__(not_before, failure)
        self.steps: KeptSteps | None = steps

    def pack(self) -> bytes:
        """As `MessageRow.handling` keeps it: without the steps, which are rows of their own."""
        return super().pack() if self.failure is not None or self.not_before else b""
