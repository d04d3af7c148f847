"""Puts with a delivery instant (handlers rule 3): from what is said to when the message is to be available."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.handling import Handling
from broker.core.message.logical_order import AT_ONCE, Instant
from broker.core.queues.unit_extras import UnitExtras
from broker.mqi.delivery_fields import KEY_BYTES, SECONDS_MAX
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.calls.puts.put import PreparedPut, Put
    from broker.core.message.entry import Entry
    from broker.core.message.logical_order import Position
    from broker.core.moment import Moment
    from broker.core.queues.unit import Unit

_FOREVER: Final = float("inf")


def check(put: Put) -> None:
    """Raise what is wrong with the extra options of a put, in themselves or where it goes: OPTIONS_ERROR (2046)."""
    extras, route = put.extras, put.route
    delay, deliver_at, key, window = extras
    if not (0 <= delay <= SECONDS_MAX and 0 <= deliver_at < _FOREVER) or (delay and deliver_at):
        raise MQError(
            MQRC.OPTIONS_ERROR,
            f"delay={delay}, deliver_at={deliver_at}: one of them, in seconds, and at most ten years from now",
        )
    if len(key) > KEY_BYTES or not (window is None or 0 < window <= SECONDS_MAX):
        raise MQError(MQRC.OPTIONS_ERROR, f"a key of {len(key)} bytes for {window} seconds: 1 to {KEY_BYTES} bytes")
    if route.remote and (delay or deliver_at or key):
        raise MQError(
            MQRC.OPTIONS_ERROR, f"{route.q_name} is of another queue manager: no delivery instant or key goes there"
        )


def instant_of(put: Put, moment: Moment) -> Instant:
    """Return the instant from which the message is available. What is put in logical order has the instant of the
    group, or logical message, that it goes on with; another one is OPTIONS_ERROR (2046).
    """
    extras, handle = put.extras, put.handle
    said = (extras.delay, extras.deliver_at)
    last = None if handle is None else handle.position.last_put
    if last is not None and last.open and last.logical:
        if said != last.instant.said:
            raise MQError(
                MQRC.OPTIONS_ERROR, "all of a group has one instant: say the same delay or deliver_at with each"
            )
        return last.instant
    if not any(said):
        return AT_ONCE
    if extras.delay > 0:
        return Instant(said, moment.wall + extras.delay, moment.tick + extras.delay)
    if extras.deliver_at > moment.wall + SECONDS_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"deliver_at={extras.deliver_at}: more than ten years from now")
    if extras.deliver_at > moment.wall:
        return Instant(said, extras.deliver_at)
    return Instant(said)


def delay(put: Put, prepared: PreparedPut, instant: Instant) -> Position | None:
    """Delay completed messages until an instant; where that leaves the handle. Raises EXPIRY_ERROR (2013) where they
    would be expired by then.
    """
    if instant.wall:
        for entry in prepared.entries:
            if entry.deadline is not None and entry.deadline <= instant.wall:
                raise MQError(
                    MQRC.EXPIRY_ERROR,
                    f"the message would be available at {instant.wall} and is expired at {entry.deadline}",
                )
            entry.handling = Handling(instant.wall)
            _share(put, entry)
    position = prepared.position
    if position is None or not (position.open and position.logical):
        return position
    return position._replace(instant=instant)


def _share(put: Put, entry: Entry) -> None:
    """Of equal descriptors of messages that are put one after the other, one is kept: there may be very many."""
    if put.handle is not None:
        last = put.handle.last_calls
        if last.packed_md == entry.packed_md:
            entry.packed_md = last.packed_md
        else:
            last.packed_md = entry.packed_md


def join(unit: Unit, entries: Iterable[Entry], instant: Instant) -> None:
    """Messages that have been placed are delayed from the commit of the unit on."""
    if instant.wall:
        extras = unit.extras = unit.extras or UnitExtras()
        for entry in entries:
            extras.delayed[entry] = instant.tick


def take_out(unit: Unit) -> tuple[list[Entry], list[tuple[Entry, float | None]]]:
    """Return the puts of a committed unit: those available now, and the delayed ones, each with its instant
    (monotonic).
    """
    extras = unit.extras
    if extras is None or not extras.delayed:
        return unit.puts, []
    there = [entry for entry in unit.puts if entry not in extras.delayed or entry.queue.deleted]
    return there, [(entry, due) for entry, due in extras.delayed.items() if not entry.queue.deleted]
