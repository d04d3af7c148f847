"""The state that the parts of the engine share, and the effects of the core's steps."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from broker.core.calls import damage
from broker.core.calls.puts import handoff
from broker.core.message.rows import Rows
from broker.core.moment import Moment
from broker.core.prepared import branches as prepared_branches
from broker.engine.admin.security_log import SecurityLog
from broker.engine.calls.answers import nobody
from broker.engine.figures.sources import FigureSources
from broker.engine.handlers.deliveries import DeliveryService
from broker.engine.handlers.delivery_ends import DeliveryEnds
from broker.engine.handlers.monitors import Monitors
from broker.engine.handlers.switch_offs import SwitchOffs
from broker.engine.jobs.jobs import Jobs
from broker.engine.journal.bodies import tell_damage
from broker.engine.mark_expiry import MarkExpiry
from broker.engine.mistakes import mistake
from broker.engine.outbox import Outbox
from broker.engine.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.clock import Clock
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.names.definitions import Change
    from broker.core.queues.effects import Effects
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.external.external_units import ExternalUnits
    from broker.engine.jobs.slices import Slices
    from broker.engine.journal.bodies import Bodies
    from broker.engine.journal.journal import Journal
    from broker.engine.shared_queues import SharedQueues
    from broker.mqi.errors import MQError
    from broker.storage.store import DataDamagedError

WAITS_AT_ONCE = 100
"""Of more gets whose waits end together each is told in its turn, in slices."""


class EngineContext:
    """The core, the clock, the journal, the bodies in memory and the slices of a queue manager, with the steps that
    bring what the core lets happen to those who wait for it. The queue manager makes it when it has loaded its core.
    """

    __slots__ = (
        "_ended_waits", "bodies", "clock", "core", "deliveries", "delivery_ends", "external", "figures", "followers",
        "jobs",
        "journal", "loop", "mark_expiry", "member", "monitors", "outbox", "releases", "security_log", "sharing",
        "slices", "switch_offs",
    )  # fmt: skip

    member: SharedQueues
    """As `sharing`, for what is about a shared queue: there is none without."""

    def __init__(
        self,
        core: Manager,
        clock: Clock,
        journal: Journal,
        bodies: Bodies,
        slices: Slices,
        sharing: SharedQueues | None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.core = core
        self.clock = clock
        self.journal = journal
        self.bodies = bodies
        self.slices = slices
        self.figures = FigureSources(self.loop, clock)
        self.outbox = Outbox(self)
        self.security_log = SecurityLog(core, clock, self.perform)
        self.monitors = Monitors(core.triggers)
        self.mark_expiry = MarkExpiry(self)
        self.jobs = Jobs(self)
        self.deliveries = DeliveryService(self)
        self.delivery_ends = DeliveryEnds(self)
        self.releases = Releases(self)
        self.switch_offs = SwitchOffs(self)
        self.followers: list[Callable[[Change], None]] = []  # called with each change that has taken effect
        self.sharing = sharing  # None in no queue-sharing group
        if sharing is not None:
            self.member = sharing
        self._ended_waits: deque[tuple[Waiter, int]] = deque()  # gets that are to be told of it
        self.external: ExternalUnits | None = None
        if core.branches.external:
            self.external_units()

    def external_units(self) -> ExternalUnits:
        """Units of work that a database of a program's own decides: nothing of it is there before the first."""
        if self.external is None:
            from broker.engine.external.external_units import ExternalUnits

            self.external = ExternalUnits(self)
        return self.external

    def moment(self) -> Moment:
        """The time now, by both clocks."""
        return Moment(self.clock.time(), self.clock.monotonic())

    def settle(self, unit: Unit, *, committed: bool) -> None:
        """Let a unit take effect, and bring the effects to those who wait."""
        gets, puts = list(unit.gets), unit.puts
        self.core.settle(unit, committed=committed, now=self.clock.time())
        if committed:
            for entry in gets:
                self.bodies.gone(entry)
        elif unit.shared is not None and unit.shared.loaded:
            prepared_branches.returned(self.core, unit, self.moment())
        self.perform()
        if committed:
            for entry in puts:
                if entry.persistence and not entry.queue.shared:
                    self.bodies.settled(entry)
        else:
            self.bodies.trim()

    def settle_ended(self, unit: Unit, now: float) -> None:
        """Let the commit of a unit take effect that has put nothing but records of a history, or nothing at all. The
        caller performs what comes of it.
        """
        puts = unit.puts
        self.core.settle(unit, committed=True, now=now)
        for entry in unit.gets:
            self.bodies.gone(entry)
        for entry in puts:
            if entry.persistence:
                self.bodies.settled(entry)

    def settle_handoff(self, unit: Unit) -> None:
        """Let a put and the waiting get that takes its message take effect together (journal rule 5)."""
        waiter, grant = handoff.settle_together(self.core, unit, self.clock.time())
        try:
            waiter.owner.handed(grant)
        except Exception as error:
            waiter.owner.spoiled(mistake(error, "a get"))
        self.perform()

    def set_aside(self, entry: Entry, error: DataDamagedError) -> MQError:
        """A get or browse has found the data of a message damaged: nobody is given it from now on. What to answer
        (semantics 5.10).
        """
        if self.core.set_aside(entry, str(error)):
            tell_damage(entry, str(error))
            self.perform()
        return damage.refusal(entry, str(error))

    def tell_followers(self, change: Change) -> None:
        """A change has taken effect: tell those who follow the definitions."""
        for follow in self.followers:
            follow(change)

    def perform(self, caller: CallOrder | None = None) -> None:
        """Carry out what the steps of the core since the last time let happen. After every step: if that was a call,
        `caller` is the order of its conversation, whose next call sees what comes of it.
        """
        posted, left = False, self.core.effects
        while (  # as `Effects.__bool__` has it, without a call: nearly always there is nothing
            left.grants or left.ended or left.expired or left.generated or left.triggered or left.lost or left.posted
            or left.to_offer or left.postponed or left.to_judge
        ):  # fmt: skip
            effects = self.core.drain(self.clock.time())
            self._serve(effects)
            self.outbox.send(effects, caller)
            if effects.postponed:
                self.releases.keep(effects.postponed)
            if effects.to_judge:
                self.member.triggering.judge(effects.to_judge)
            posted = posted or effects.posted
        if self.core.keys.freed:
            self._free_keys()
        ids = self.core.ids
        if ids.last >= ids.low_at and self.journal.idle:
            self.journal.submit(Rows(), nobody)  # stores the mark, where all messages are nonpersistent
        if posted:
            self.monitors.wake()
            self.deliveries.run()
            self.switch_offs.write()

    def _free_keys(self) -> None:
        """Let the store forget the keys of messages that have gone, before anything is put with them again."""
        freed, self.core.keys.freed = self.core.keys.freed, []
        self.journal.submit(Rows(freed=freed), nobody)

    def _serve(self, effects: Effects) -> None:
        for waiter, grant in effects.grants:
            try:
                waiter.owner.granted(grant)
            except Exception as error:
                waiter.owner.spoiled(mistake(error, "a get"))
        if len(effects.ended) > WAITS_AT_ONCE or self._ended_waits:
            self._end_waits(effects.ended)
        else:
            for waiter, reason in effects.ended:
                waiter.owner.ended(reason)

    def _end_waits(self, ended: list[tuple[Waiter, int]]) -> None:
        """Tell very many gets in slices that they wait no longer."""
        under_way = bool(self._ended_waits)
        self._ended_waits += ended
        if not under_way:
            self.slices.run(self._telling(), self._notified)

    def _telling(self) -> Iterator[None]:
        while self._ended_waits:
            waiter, reason = self._ended_waits.popleft()
            waiter.owner.ended(reason)
            yield

    def _notified(self, error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the end of a wait")
            self.slices.run(self._telling(), self._notified)  # the others

    def end_waits(self) -> None:
        """Tell the gets that are still to be told that they wait no longer, at once: the queue manager ends."""
        if self.external is not None:
            self.external.end()
        deque(self._telling(), maxlen=0)
