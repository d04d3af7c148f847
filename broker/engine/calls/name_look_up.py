"""The look-up of names in a queue-sharing group.

A call that names what this member does not know is made again when it has been looked up in the shared repository
(queue-sharing 2): another member may have defined it a moment ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.names.resolution import UnknownNameError
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.engine.context import EngineContext
    from broker.mqi.structures import ObjectDescriptor


class NameLookUp:
    """Looks names up for the calls of one connection, one at a time."""

    __slots__ = ("_context", "_error", "_over")

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._over = False  # for the call that is being made
        self._error: Exception | None = None  # why the shared repository could not be read for it

    def may_help(self, error: MQError) -> bool:
        """True if the call that has raised this is made again, once the name has been looked up."""
        return isinstance(error, UnknownNameError) and self._context.sharing is not None and not self._over

    def check_list(self, descriptor: ObjectDescriptor) -> None:
        """Raise that a queue of a distribution list is not known, if a look-up may help: to open the list tells of each
        queue, and raises nothing where it knows others.
        """
        if descriptor.records and self._context.sharing is not None:
            for record in descriptor.records:
                try:
                    self._context.core.objects.route(record.object_name, record.object_q_mgr_name, MQOO.OUTPUT.value)
                except MQError as error:
                    if self.may_help(error):
                        raise

    def run(self, again: Callable[[], None], then: Callable[[], None]) -> None:
        """Read what others have defined, make the call `again`, then let the later ones go on."""

        def known(error: Exception | None) -> None:
            self._over, self._error = True, error
            again()
            self._over, self._error = False, None
            then()

        member = self._context.member
        member.ask(member.repository.look_up, "the reading of shared definitions", known)

    def reported(self, error: UnknownNameError) -> MQError:
        """Return the error for the program: it says so where the name could not be looked up."""
        if self._error is None:
            return error
        return MQError(
            MQRC.DB2_NOT_AVAILABLE,
            f"{error.detail}; what other members of the group have defined cannot be read: {self._error}",
        )
