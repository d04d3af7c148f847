"""Jobs: calls and scripts that take more than one step.

A job is a coroutine. It awaits pauses, changes of definitions and looks (`broker.engine.jobs.awaits`), and where one
ends with an error that is raised there. What it returns answers its call, unless it has answered that itself. The
rules, for all of them:

1.  Jobs take turns, a step at a time, in slices of the event loop. While one waits for an answer the others go on.
2.  One change is made at a time, over all connections. Jobs that may change something stand still meanwhile: nothing is
    judged by what is about to be replaced. Jobs that only look go on.
3.  Later calls of its connection wait until a job is over (`broker.engine.calls.call_order`).
4.  When nobody waits for the call of a job that only looks, the job is left where it is: at its next step, or at once
    where it waits for an answer. A job that may change something goes on to its end; its answer is not heard.
5.  The end of a connection answers the call of a job that only looks, which is left for that (4). A job that may
    change something goes on, and sees for itself whether its connection is still there.
6.  What it raises ends a job: an MQError is the answer to its call; an error of the store is STORAGE_MEDIUM_FULL (2192)
    where it is full, and CONNECTION_BROKEN (2009) where the outcome is unknown; anything else is a mistake of ours, and
    the answer UNEXPECTED_ERROR (2195). A look that cannot even begin is a look that ended with that error.
7.  The end of the queue manager ends the jobs that may change something with its error. Those that only look end with
    their connections.
8.  A job with a lock is begun when it has that, and lets it go when its call is answered.

A job that is left or ended is closed: its `finally` is where it lets go of what it holds. The answer to a look comes
too late then, and nobody is told of it. A job that awaits anything else, such as a future of the event loop, is told so
by a TypeError: nobody would resume it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from broker.core.security.authority import NotAuthorizedError
from broker.engine.admin.changes import Changes
from broker.engine.calls.answers import fail_written, succeed
from broker.engine.calls.gets import spoil
from broker.engine.jobs.awaits import PAUSE, Changed, Look
from broker.engine.mistakes import contained, mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from broker.core.names.definitions import Change
    from broker.engine.context import EngineContext
    from broker.engine.jobs.awaits import FifoLock
    from broker.engine.jobs.slices import Work
    from broker.interface.port import Call

T = TypeVar("T")

Steps: TypeAlias = "Coroutine[Any, None, T]"
"""The steps of a job, or a part of them, and what they come to."""


class Job:
    """The steps of a call. `answer` is given the call and what they return; `over` is called when they have come to
    their end, whatever end. `looks`: they only look.
    """

    __slots__ = ("answer", "awaited", "call", "error", "lock", "looks", "over", "steps")

    def __init__(
        self,
        steps: Steps[Any],
        call: Call[Any],
        over: Callable[[], None],
        *,
        looks: bool = False,
        lock: FifoLock | None = None,
        answer: Callable[[Call[Any], Any], None] = succeed,
    ) -> None:
        self.steps = steps
        self.call = call
        self.over = over
        self.looks = looks
        self.lock = lock
        self.answer = answer
        self.awaited: Look[Any] | None = None
        self.error: Exception | None = None  # to raise at its next step


class Jobs:
    """The jobs of a queue manager: those that can go on, those that wait for an answer, the one whose change is being
    made and those that stand still for it.
    """

    def __init__(self, context: EngineContext) -> None:
        self._slices = context.slices
        self._security_log = context.security_log
        self._counts = context.figures.calls
        self._changes = Changes(context)
        self._ready: deque[Job] = deque()
        self._waiting: dict[Job, None] = {}
        self._changing: Job | None = None
        self._behind: deque[Job] = deque()  # the change that is being made
        self._busy = False  # with slices
        self._ended: MQError | None = None

    def run(self, job: Job) -> None:
        """Take the steps of a job from the next turn of the event loop on."""
        self._add(job, now=False)

    def start(self, job: Job) -> None:
        """Take the steps of a job, the first now unless others have their turn."""
        self._add(job, now=True)

    def change(self, steps: Steps[Any], call: Call[Any]) -> None:
        """Take the steps of a change that no connection asks for."""
        self.run(Job(steps, call, lambda: None))

    def end(self, error: MQError) -> None:
        """The queue manager ends (7)."""
        self._ended = error
        jobs = [*self._ready, *self._behind, *self._waiting, *([self._changing] if self._changing is not None else [])]
        self._changing = None
        for held in (self._ready, self._behind, self._waiting):
            held.clear()
        for job in jobs:
            job.awaited = None
        for job in jobs:
            if job.looks:
                contained(job.steps.close)
            else:
                self._end(job, spoil, error)

    def _add(self, job: Job, *, now: bool) -> None:
        if self._ended is not None:
            self._end(job, spoil, self._ended)
            return
        if job.lock is None or job.lock.take():
            self._ready.append(job)
            self._go_on(now=now)
        else:
            self._ask(job, job.lock)

    def _go_on(self, *, now: bool) -> None:
        if not self._busy and self._ready:
            self._busy = True
            (self._slices.start if now else self._slices.run)(self._work(), self._worked)

    def _work(self) -> Work:
        while self._ready:
            job = self._ready.popleft()
            if self._changing is not None and not job.looks:
                self._behind.append(job)
            elif job.looks and job.call.done():
                self._leave(job)
            else:
                self._step(job)
            yield

    def _worked(self, _: Exception | None) -> None:
        self._busy = False
        self._go_on(now=False)

    def _step(self, job: Job) -> None:
        error, job.error = job.error, None
        try:
            awaited = job.steps.send(None) if error is None else job.steps.throw(_own(error))
        except StopIteration as end:
            self._end(job, job.answer, end.value)
        except MQError as refused:
            self._counts.failed(refused.reason)
            if isinstance(refused, NotAuthorizedError):
                contained(self._security_log.not_authorized, refused)
            self._end(job, spoil, refused)
        except StoreError as failed:
            self._end(job, fail_written, failed, MQRC.STORAGE_MEDIUM_FULL)
        except Exception as wrong:
            self._end(job, spoil, mistake(wrong, "a call"))
        else:
            self._await(job, awaited)

    def _await(self, job: Job, awaited: object) -> None:
        if isinstance(awaited, Look):
            self._ask(job, awaited)
        elif awaited is PAUSE:
            self._ready.append(job)
        elif isinstance(awaited, Changed):
            self._changing = job
            self._change(job, awaited.changes)
        else:
            job.error = TypeError(f"a job awaits pauses, changes and looks, not {type(awaited).__name__}")
            self._ready.append(job)

    def _end(self, job: Job, answer: Callable[..., None], *arguments: Any) -> None:
        """End a job with this answer to its call."""
        contained(answer, job.call, *arguments)
        self._leave(job)

    def _leave(self, job: Job) -> None:
        contained(job.steps.close)
        if job.lock is not None:
            contained(job.lock.let_go)
        contained(job.over)

    # Looks

    def _ask(self, job: Job, look: Look[Any]) -> None:
        job.awaited = look
        self._waiting[job] = None
        if job.looks:
            job.call.add_done_callback(partial(self._unwanted, job))
        try:
            look.begin(partial(self._answered, job, look))
        except Exception as error:
            self._answered(job, look, error if isinstance(error, MQError) else mistake(error, "a look"))

    def _answered(self, job: Job, look: Look[Any], error: Exception | None) -> None:
        if job.awaited is not look:
            return  # the job has been left, or has had this answer
        del self._waiting[job]
        job.awaited = None
        job.error = error
        self._ready.append(job)
        self._go_on(now=False)  # whoever answers may be in the middle of something

    def _unwanted(self, job: Job, _: Call[Any]) -> None:
        """The call is done, and not by this job if that still waits for an answer."""
        if job.awaited is not None:
            del self._waiting[job]
            job.awaited = None
            self._leave(job)

    # Changes

    def _change(self, job: Job, changes: Sequence[Change]) -> None:
        try:
            self._changes.make(changes[0], partial(self._changed, job, changes[1:]))
        except Exception as error:
            self._changed(job, (), error if isinstance(error, MQError) else mistake(error, "a change of definitions"))

    def _changed(self, job: Job, rest: Sequence[Change], error: Exception | None) -> None:
        if self._changing is not job:
            return  # all has ended meanwhile
        if error is None and rest:
            self._change(job, rest)
            return
        self._changing = None
        job.error = error
        self._ready.extendleft(reversed(self._behind))
        self._behind.clear()
        self._ready.appendleft(job)
        self._go_on(now=True)


def _own(error: Exception) -> Exception:
    """An exception like this one, to be raised in one job: others may be told of the same, and each adds a traceback to
    the exception that it raises.
    """
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    return own
