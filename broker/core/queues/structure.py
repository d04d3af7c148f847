"""Structures: what of a group the messages of a shared queue stand in, and fail with (queue-sharing 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition


class Structure:
    """One CFSTRUCT, as its queue manager knows it. `definition` is None where nobody has heard of it yet."""

    __slots__ = ("backed_up", "definition", "failed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.definition: Definition | None = None
        self.failed = False
        self.backed_up: float | None = None  # by BACKUP CFSTRUCT, in seconds since 1970

    @property
    def recovers(self) -> bool:
        """RECOVER(YES): it holds persistent messages."""
        return self.definition is None or bool(self.definition.attributes["RECOVER"])

    def check(self, q_name: str) -> None:
        """Raise CF_STRUC_FAILED (2373) while it has to be recovered."""
        if self.failed:
            raise MQError(
                MQRC.CF_STRUC_FAILED,
                f"{q_name} is in the structure {self.name}, which has failed: RECOVER CFSTRUCT({self.name})",
            )
