"""The order of the calls of a connection: when each is made, and what of them is on its way to the store.

Each call takes effect when it is made, in issue order (journal rule 3). There is one exception to "when it is made":
a call that looks at queues (get, open, inquire) must see what this connection's own earlier calls made visible, so
while those are being written it is deferred, and all later calls wait behind it. All wait behind a call that takes more
than one step (`broker.engine.jobs.jobs`). Where many have waited they are made in slices, and only as far as the
connection has room for answers.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from broker.core.calls.puts import handoff
from broker.core.message.generated.reports import unread
from broker.core.message.rows import Rows
from broker.core.names.resolution import UnknownNameError
from broker.core.security.authority import NotAuthorizedError
from broker.engine.calls.answers import fail, succeed
from broker.engine.calls.gets import ReceivingCall, spoil
from broker.engine.calls.name_look_up import NameLookUp
from broker.engine.jobs.awaits import PAUSE
from broker.engine.jobs.jobs import Job
from broker.engine.journal.pending_unit import PendingUnit
from broker.engine.mistakes import contained, mistake
from broker.interface.port import Call
from broker.interface.portal import check_loop
from broker.mqi.errors import MQError
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.core.queues.unit import Unit
    from broker.engine.calls.room import Room
    from broker.engine.context import EngineContext
    from broker.engine.jobs.awaits import FifoLock
    from broker.engine.jobs.jobs import Steps
    from broker.engine.jobs.slices import Work
    from broker.mqi.reasons import MQRC
    from broker.storage.store import Done

C = TypeVar("C", bound=Call[Any])
T = TypeVar("T")


class QueuedCall(NamedTuple):
    """A call that is deferred: what makes it, with which arguments, and whether it looks at queues."""

    call: Call[Any]
    make: Callable[..., None]
    arguments: tuple[Any, ...]
    looks: bool = False


class CallOrder:
    """The calls of one connection that are deferred, and its units that are not settled yet."""

    def __init__(self, context: EngineContext, room: Room) -> None:
        self.ended: MQRC | None = None
        self.end_reported = False  # a call has failed because of that
        self.name_look_up = NameLookUp(context)
        self._loop = context.loop
        self._context = context
        self._room = room
        self._unsettled = 0  # units of this connection in the journal
        self._revealing = 0  # those among them, and other steps, that will make messages visible
        self._held = 0  # jobs of this connection, and commits that wait for bodies: all later calls wait
        self._deferred: deque[QueuedCall] = deque()
        self._dropped: deque[Call[Any]] = deque()  # since the connection ended
        self._looking: Call[Any] | None = None  # with a job, or in the shared repository
        self._resuming = False

    def in_order(self, call: C, make: Callable[..., None], *arguments: Any) -> C:
        """Make a call now, or behind those that are deferred. What it raises is its answer. Raises RuntimeError for a
        call of another event loop.
        """
        if call.get_loop() is not self._loop:
            check_loop(self._loop, call.get_loop(), self._context.core.name)
        if self.ended is None and not self._deferred and not self._held:
            self._make(call, make, arguments)
        else:
            self._defer(QueuedCall(call, make, arguments))
        return call

    def after_own_writes(self, call: C, make: Callable[..., None], *arguments: Any) -> C:
        """As `in_order`, for a call that looks at queues: it is made once all that this connection's earlier calls have
        put is visible.
        """
        if call.get_loop() is not self._loop:
            check_loop(self._loop, call.get_loop(), self._context.core.name)
        if self.ended is None and not self._deferred and not self._held and not self._revealing:
            self._make(call, make, arguments)
        else:
            self._defer(QueuedCall(call, make, arguments, looks=True))
        return call

    def _defer(self, deferred: QueuedCall) -> None:
        if self.ended is None:
            self._deferred.append(deferred)
        else:
            self.end_reported = True
            fail(deferred.call, self.ended)

    def end(self, reason: MQRC) -> None:
        """The connection ends: later calls fail with `reason`, and none that is looking or deferred goes on."""
        self.ended = reason
        self.end_reported = bool(self._looking or self._deferred or self._unsettled)
        self._dropped.extend(deferred.call for deferred in self._deferred)
        self._deferred.clear()
        if self._looking is not None:
            self._dropped.appendleft(self._looking)

    def dropping(self, reason: MQRC) -> Work:
        """The calls that were looking or deferred when the connection ended fail with `reason`."""
        while self._dropped:
            fail(self._dropped.popleft(), reason)
            yield

    def reveal(self) -> Callable[[], None]:
        """Something is under way that makes messages visible: until the function returned is called, calls that look
        at queues are deferred. To call it again is harmless.
        """
        self._revealing += 1
        return _once(self._revealed)

    def hold(self) -> Callable[[], None]:
        """Until the function returned is called, all later calls are deferred. To call it again is harmless."""
        self._held += 1
        return _once(self._released)

    def take_along(self, wanted: Callable[[QueuedCall], bool]) -> None:
        """Make the deferred calls in front that whoever holds the others takes along with its own."""
        while self._deferred and not self._room.congested and wanted(self._deferred[0]):
            self._make_deferred(self._deferred.popleft())

    def _revealed(self) -> None:
        self._revealing -= 1
        self._resume()

    def _released(self) -> None:
        self._held -= 1
        self._resume()

    def prepare(self, steps: Iterator[None], call: Call[Any], make: Callable[..., None], *arguments: Any) -> None:
        """Do what must be done before a call that only receives can be made, in slices; then make it, before all later
        calls. When nobody waits for the call any more, the rest is left undone.
        """
        deferred = QueuedCall(call, make, arguments, looks=True)
        self._look(call, self._prepared(steps), lambda _call, _: self._deferred.appendleft(deferred))

    def look(self, call: Call[T], steps: Steps[T], size: int = 0) -> None:
        """Answer a call that only looks with a job. All later calls wait behind it. Room for `size` bytes of what it is
        going to see is taken now, so the answer waits for none.
        """
        call.held += size
        if size:
            self._room.got(size)
        self._look(call, steps, succeed)

    def _look(self, call: Call[Any], steps: Steps[Any], answer: Callable[[Call[Any], Any], None]) -> None:
        self._looking = call
        go_on = self.hold()

        def over() -> None:
            self._looking = None
            go_on()

        self._context.jobs.run(Job(steps, call, over, looks=True, answer=answer))

    def change(
        self, call: Call[T], steps: Steps[T | None], *, lock: FifoLock | None = None, at_once: bool = True
    ) -> None:
        """Answer a call that may change something with a job, whose first step is taken `at_once` or in the next turn
        of the event loop, and not before it has the `lock`. All later calls wait behind it.
        """
        job = Job(steps, call, self.hold(), lock=lock)
        if at_once:
            self._context.jobs.start(job)
        else:
            self._context.jobs.run(job)

    async def _prepared(self, steps: Iterator[None]) -> None:
        for _ in steps:
            self._context.perform()
            await PAUSE

    def commit(self, unit: Unit, then: Done) -> None:
        """Freeze a unit and have it written and settled; `then` gives the answer.

        A unit whose reports carry data that is only on disk waits for that, and the later calls with it. So does one
        with a get that is not answered yet because its data is being read: a message whose data is damaged is not
        removed (semantics 5.10).
        """
        on_disk = unread(unit.reports.items()) if unit.reports else []
        if unit.owner is not None:
            on_disk = [entry for entry in unit.gets if entry.data is None] or on_disk
        if not on_disk and unit.shared is not None:
            self._context.member.units.commit(self, unit, then)
            return
        if not on_disk:
            moment = self._context.moment() if unit.reports else None
            rows = self._context.core.commit(unit, moment)
            if unit.shared is None:
                self._settle(unit, rows, then, committed=True)
            else:  # by a report that it causes
                self._context.member.units.commit(self, unit, then, rows)
            return
        go_on = self.hold()

        def fetched(error: Exception | None) -> None:
            try:
                if error is None or isinstance(error, DataDamagedError):
                    self.commit(unit, then)  # what is damaged has left the unit, since its get has failed
                else:
                    then(error)
            except Exception as wrong:
                then(mistake(wrong, "a commit"))
            finally:
                go_on()

        try:
            self._context.bodies.fetch(on_disk, fetched)
        except Exception:
            go_on()
            raise

    def try_handoff(self, unit: Unit, then: Done) -> bool:
        """Give the message that an implicit unit puts to a get that waits for it, without a write, if that may be
        (journal rule 5). `then` is called a turn later: a getter that has gone by then has put the message again.
        """
        context = self._context
        if not context.journal.idle or not handoff.awaited(unit, context.clock.time()):
            return False
        context.settle_handoff(unit)
        self._unsettled += 1

        def a_turn_later() -> None:
            self._unsettled -= 1
            if context.journal.idle:
                contained(then, None)
                self._resume()
            else:
                self.write(Rows(), then, reveals=False)

        context.journal.afterwards.next_turn(a_turn_later)
        return True

    def back_out(self, unit: Unit, then: Done) -> None:
        """Freeze a unit for its backout and have the raised counts written. Without room for them it is backed out all
        the same: that needs none.
        """
        if unit.shared is not None:
            self._context.member.units.back_out(self, unit, then)
            return
        self._settle(unit, self._context.core.backout(unit), then, committed=False)

    def write_branch(self, rows: Rows, then: Done) -> None:
        """Have the prepared branch of a frozen unit written, or nothing, after this connection's earlier units. It
        falls with them when the store is full (journal rule 6). The connection is held meanwhile.
        """
        if not (self._unsettled or rows):
            then(None)
            return
        self._unsettled += 1

        def written(error: Exception | None) -> None:
            self._unsettled -= 1
            then(error)

        self._context.journal.submit(rows, written, self)

    def write(self, rows: Rows, then: Done, *, reveals: bool) -> None:
        """Have rows written; later calls that look at queues wait for it if it `reveals` messages."""
        self._submit(PendingUnit(None, rows, then, committed=False, reveals=reveals))

    def _settle(self, unit: Unit, rows: Rows, then: Done, *, committed: bool) -> None:
        """Settle a frozen unit when it is durable, after this connection's earlier ones."""
        if not (self._unsettled or rows.inserts or rows.removals or rows):
            self._context.settle(unit, committed=committed)
            then(None)
        else:
            reveals = bool(unit.puts if committed else unit.gets)
            self._submit(PendingUnit(unit, rows, then, committed=committed, reveals=reveals))

    def _submit(self, pending: PendingUnit) -> None:
        """A commit is undone when an earlier call of this connection found the store full (journal rule 6)."""
        caller = self if pending.committed else None
        self._context.journal.submit(pending.rows, partial(self._written, pending), caller, self._room)
        self._unsettled += 1
        self._revealing += pending.reveals

    def _written(self, pending: PendingUnit, error: Exception | None) -> None:
        self._unsettled -= 1
        self._revealing -= pending.reveals
        if error is not None:
            self._context.figures.calls.not_written(error)
        try:
            if error is not None and pending.gives_up and isinstance(error, StoreFullError):
                self._give_up(pending, error)
            else:
                pending.then(pending.settle(self._context, error))
        except Exception as wrong:
            mistake(wrong, "a step")
        if self._deferred:
            self._resume()

    def _give_up(self, pending: PendingUnit, full: StoreFullError) -> None:
        """There is no room for a commit that got messages: it is backed out, which needs none, and has failed then."""
        unit = pending.unit
        assert unit is not None
        try:
            rows = self._context.core.give_up(unit)
            self._settle(unit, rows, lambda _: pending.then(full), committed=False)
        except Exception as wrong:
            pending.then(mistake(wrong, "the settlement of a unit of work"))

    def _look_up(self, deferred: QueuedCall) -> None:
        """Make a call again, before all later ones, when what others have defined is known."""
        self._looking = deferred.call

        def again() -> None:
            self._looking = None
            if self.ended is None:
                self._make_deferred(deferred)

        self.name_look_up.run(again, self.hold())

    def _make(self, call: Call[Any], make: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            make(call, *arguments)
        except UnknownNameError as error:
            if self.name_look_up.may_help(error):
                self._look_up(QueuedCall(call, make, arguments))
            else:
                self._context.figures.calls.failed(error.reason)
                call.set_exception(self.name_look_up.reported(error).with_traceback(None))
        except MQError as error:
            self._context.figures.calls.failed(error.reason)
            if isinstance(error, NotAuthorizedError):
                self._context.security_log.not_authorized(error)
            call.set_exception(error.with_traceback(None))  # which would keep the arguments alive
        except Exception as error:
            spoil(call, mistake(error, "a call"))
        try:
            self._context.perform(self)
        except Exception as error:
            mistake(error, "what follows a call")

    @property
    def _next_may_be_made(self) -> bool:
        return bool(self._deferred) and not self._held and not (self._revealing and self._deferred[0].looks)

    def _resume(self) -> None:
        """Make the deferred calls, as far as they need not wait on."""
        if self._next_may_be_made and not self._resuming:
            self._resuming = True
            self._context.slices.start(self._resumed(), self._resumed_so_far)

    def _resumed(self) -> Work:
        while self._next_may_be_made:
            if self._room.congested:
                self._room.wait(self._resume)
                return
            self._make_deferred(self._deferred.popleft())
            yield

    def _make_deferred(self, deferred: QueuedCall) -> None:
        call, make, arguments, _ = deferred
        if not call.cancelled():
            self._make(call, make, arguments)
        elif not isinstance(call, ReceivingCall):
            self._make(_unheard(), make, arguments)  # who made it is not there to hear, and decides nothing

    def _resumed_so_far(self, _: Exception | None) -> None:
        self._resuming = False


def _once(step: Callable[[], None]) -> Callable[[], None]:
    """Return a function that takes a step when it is called first, and then no more."""
    taken = False

    def take() -> None:
        nonlocal taken
        if not taken:
            taken = True
            step()

    return take


def _unheard() -> Call[Any]:
    """A call whose answer nobody hears, be it an error."""
    call: Call[Any] = Call()
    call.add_done_callback(lambda done: done.cancelled() or done.exception())
    return call
