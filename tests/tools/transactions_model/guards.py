"""The guards of the protocol. Each can be taken out, and a schedule must be found in which that does harm."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Guards:
    """What keeps a transaction whole; all of it by default."""

    prepare_first: bool = True
    """The unit is prepared before COMMIT is sent."""
    prepare_durable: bool = True
    """A prepare is answered when it is durable."""
    marker: bool = True
    """The marker is in the program's transaction; without one a resolver asks for what is not there."""
    marker_first: bool = True
    """The marker is inserted before the prepare; then aborted markers may go early."""
    probe_insert: bool = True
    """A resolver inserts the marker itself; without it looks, and takes "not there" for aborted."""
    unique: bool = True
    """The marker's key is unique."""
    keep_aborted: bool = True
    """Where an insert does not wait for another, aborted markers outlive all transactions of their time."""
    hold: bool = True
    """A prepared delivery outlives the connection of its worker."""
    fence: bool = True
    """A prepare for a delivery that its connection does not hold any more is refused."""
    unknown_asks: bool = True
    """A COMMIT without an answer is asked for; without that it is taken as failed."""
    unknown_not_done: bool = True
    """A COMMIT without an answer is not taken as done."""
    decide_late: bool = True
    """The queue manager is told "commit" when the database has answered COMMIT."""
    no_age: bool = True
    """A unit in doubt is never discarded by age."""
    identity: bool = True
    """A resolver decides units of its own database alone."""
    clean_durable: bool = True
    """ "Not in doubt" is answered from what is durable."""
    clean_order: bool = True
    """The cleaner reads markers first, and asks then which are in doubt."""
    clean_owner: bool = True
    """The cleaner takes markers of the queue manager that it asks alone."""
    order_hold: bool = True
    """A message in doubt holds its order key."""
    empty_commit: bool = True
    """A driver never sends COMMIT again on a new session."""
    step_durable: bool = True
    """A step is answered when it is durable."""
    step_settled: bool = True
    """A message is not handed out again before a step of it that is on its way has settled."""
    step_fence: bool = True
    """A step of a delivery that its connection does not hold any more is refused."""

    def without(self, name: str) -> Guards:
        """All of these but one."""
        return replace(self, **{name: False})


NAMES = tuple(each.name for each in fields(Guards))
"""The names of all guards."""
