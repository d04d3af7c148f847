"""Proofs: what conversations of a line live by, until it ends (security 4.8).

1. A timer looks at the instant again: a proof that was renewed meanwhile has not ended.
2. A renewal looks whether the proof has ended: nothing brings back what has.
3. A proof is kept by its line and its conversations alone, and forgotten with the last of them: a certificate may end
   in years.
"""

from __future__ import annotations

import heapq
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import ref

from broker.clock import cancel_timer
from broker.core.security.authority import NotAuthorizedError
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock, Timer
    from broker.engine.security.login import Login, LoginProof


_ENDS_KEPT: Final = 64
"""So many ends may be of proofs that are gone, and as many as there are others."""


class Proofs:
    """Ends the conversations whose proofs have ended, within a second; `ended` is told of each proof."""

    def __init__(self, clock: Clock, ended: Callable[[LoginProof], None]) -> None:
        self._clock = clock
        self._ended = ended
        self._ends: list[tuple[float, int, ref[LoginProof]]] = []
        self._ends_max = _ENDS_KEPT
        self._numbers = count()
        self._timer: Timer | None = None
        self._told = False

    def watch(self, proof: LoginProof) -> None:
        """End the conversations of a proof when it ends."""
        if proof.login.ends == inf:
            return
        if not self._told:
            self._told = True
            self._clock.tell_steps(self.look)
        heapq.heappush(self._ends, (proof.login.ends, next(self._numbers), ref(proof)))
        if len(self._ends) > self._ends_max:
            self._forget()
        self._arm()

    def renew(self, proof: LoginProof, login: Login) -> float:
        """Take a fresh login of the same user in place of the one that ends; the seconds left. Raises NOT_AUTHORIZED
        (2035) for another user, and behind the end.
        """
        if proof.over or proof.login.ends <= self._clock.time():
            raise NotAuthorizedError("renewal", "the proof before it has ended")
        if login.user != proof.login.user:
            raise NotAuthorizedError("renewal", f"it is of {login.user}, and the conversation of {proof.login.user}")
        proof.login = login
        self.watch(proof)
        return self.seconds_left(login)

    def seconds_left(self, login: Login) -> float:
        """The seconds until a login ends."""
        return max(login.ends - self._clock.time(), 0.0)

    def look(self) -> None:
        """End what has ended by now."""
        now = self._clock.time()
        while self._ends and self._ends[0][0] <= now:
            proof = heapq.heappop(self._ends)[2]()
            if proof is not None and proof.login.ends <= now and not proof.over:
                proof.over = True
                for conversation in list(proof.conversations):
                    conversation.expel(f"the proof of {proof.login.user} has ended")
                self._ended(proof)
        self._arm()

    def end(self) -> None:
        """Nothing ends any more but with the queue manager."""
        cancel_timer(self._timer)
        self._ends.clear()

    def _forget(self) -> None:
        """Forget the ends of proofs that are gone, or were renewed."""
        there = ((each, each[2]()) for each in self._ends)
        self._ends = [end for end, proof in there if proof is not None and proof.login.ends == end[0]]
        heapq.heapify(self._ends)
        self._ends_max = 2 * len(self._ends) + _ENDS_KEPT

    def _arm(self) -> None:
        """Look again at the next end, or in a second: the wall clock may be set meanwhile."""
        cancel_timer(self._timer)
        if self._ends:
            left = self._ends[0][0] - self._clock.time()
            self._timer = self._clock.call_later(min(max(left, 0.01), 1.0), self.look)


def renewal_under_way() -> MQError:
    """The error of an AUTHENTICATE while another is under way."""
    return MQError(MQRC.CALL_IN_PROGRESS, "a proof of the user is being verified: bring one at a time")
