"""A unit of work that can only be backed out: a put whose caller did not wait for the outcome has failed in it, or
nobody knows what a call on a shared queue has done in it. Its commit backs it out and says so (semantics 14.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQCC, MQRC

if TYPE_CHECKING:
    from broker.mqi.structures import PutMessageOptions

_UNHEARD_IN_UNIT = (MQPMO.SYNCPOINT | MQPMO.ASYNC_RESPONSE).value


class RollbackOnly:
    """The cause, if there is one, for which the unit of work of a connection can only be backed out."""

    def __init__(self) -> None:
        self.cause: MQError | None = None

    def put_failed(self, options: PutMessageOptions, error: MQError) -> None:
        """A put with these options has failed, which counts where nobody waits for it."""
        given = options.options
        if isinstance(given, int) and int(given) & _UNHEARD_IN_UNIT == _UNHEARD_IN_UNIT:
            self._fail(f"an asynchronous put failed: {error}")

    def unknown(self, why: str) -> None:
        """Nobody knows what a call has done in it: committed, it may take along what its program has never seen."""
        self._fail(f"the outcome of a call in it is unknown: {why}")

    def _fail(self, why: str) -> None:
        self.cause = self.cause or MQError(MQRC.BACKED_OUT, why, MQCC.WARNING)

    def end(self) -> MQError | None:
        """The unit of work ends: what its commit must answer when it can only be backed out."""
        cause, self.cause = self.cause, None
        return cause
