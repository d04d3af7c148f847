"""The command server: runs MQSC and ZMQSC scripts, and what calls change of definitions (MQSET, dynamic queues), one
change at a time over all connections.

A command is judged by what is in force, so no command is looked at before the changes of the last are durable and
applied. Scripts of several connections take turns, a step at a time: a step is a command, or one object that a DISPLAY
looks at. They are cut into slices, so that the event loop is never held for long, and a script whose replies nobody
reads stands aside. What has begun to change definitions goes on to its end when its caller has gone; then nothing is
displayed any more.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.commands import script
from broker.commands.interpreter import Outcome, begin
from broker.engine.changes import Changes
from broker.engine.mistakes import contained, mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.replies import CommandReply
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from broker.core.definitions import Change
    from broker.engine.context import EngineContext
    from broker.engine.objects import LiveCatalog
    from broker.engine.scripts import ScriptCall
    from broker.engine.slices import Work
    from broker.storage.store import Done

Steps: TypeAlias = "Generator[Sequence[Change] | None, Exception | None]"
"""Yields changes to make, and is told the error that kept them from being made, or None; or yields None where it can be
left for a while.
"""


class Job:
    """What is to be done in turn. `failed` is called if that ends with an exception; `call` if it makes replies."""

    __slots__ = ("call", "error", "failed", "steps")

    def __init__(self, steps: Steps, failed: Callable[[MQError], None], call: ScriptCall | None = None) -> None:
        self.steps = steps
        self.failed = failed
        self.call = call
        self.error: Exception | None = None  # with which its last change ended


class CommandServer:
    """The jobs that can go on, and the one whose change is being made."""

    def __init__(self, context: EngineContext, catalog: LiveCatalog, script_bytes: int) -> None:
        self._context = context
        self._catalog = catalog
        self._script_bytes = script_bytes
        self._changes = Changes(context)
        self._jobs: deque[Job] = deque()
        self._aside: dict[Job, None] = {}  # their replies are not read
        self._changing: Job | None = None
        self._busy = False  # with slices
        self._ended: MQError | None = None

    def check(self, text: str) -> None:
        """Raises DATA_LENGTH_ERROR (2010) for a script that is too long, CHAR_CONVERSION_ERROR (2340) for one with
        characters that are none.
        """
        try:
            length = len(text) if len(text) > self._script_bytes else len(text.encode())
        except UnicodeEncodeError as error:
            bad = f"U+{ord(text[error.start]):04X} at position {error.start}"
            raise MQError(MQRC.CHAR_CONVERSION_ERROR, f"{bad} of the commands is not a character") from None
        if length > self._script_bytes:
            raise MQError(
                MQRC.DATA_LENGTH_ERROR,
                f"a script of {length} bytes is over [limits] script_bytes = {self._script_bytes}: nothing of it was "
                "run; send it in several calls",
            )

    def run(self, text: str, call: ScriptCall, done: Callable[[], None], *, up_to_failure: bool = False) -> None:
        """Run the commands of a checked text in their turn, from the next turn of the event loop on, answer `call` with
        a reply to each, then call `done`; with `up_to_failure` up to the first that fails.
        """

        def failed(error: MQError) -> None:
            call.break_off(error)
            done()

        self._add(Job(self._script(text, call, done, up_to_failure=up_to_failure), failed, call), now=False)

    def submit(self, make: Callable[[], Change | None], done: Done) -> None:
        """Make the change, if any, that `make` makes of what is then in force, then call `done`: with the MQError that
        `make` raised, the error of the store, or None.
        """
        self._add(Job(_single(make, done), done), now=True)

    def end(self, error: MQError) -> None:
        """The queue manager ends: every job ends with this error."""
        self._ended = error
        jobs = [*self._jobs, *self._aside, *([self._changing] if self._changing is not None else [])]
        self._jobs.clear()
        self._aside.clear()
        self._changing = None
        for job in jobs:
            contained(job.failed, error)

    def _script(self, text: str, call: ScriptCall, done: Callable[[], None], *, up_to_failure: bool) -> Steps:
        try:
            yield from self._commands(text, call, up_to_failure=up_to_failure)
        except Exception as error:
            call.add(_failed(mistake(error, "MQSC")))
        call.complete()
        done()

    def _commands(self, text: str, call: ScriptCall, *, up_to_failure: bool) -> Steps:
        warned: set[str] = set()
        count = 0
        for command in script.steps(text):
            ok = True
            if command:
                count += 1
                ok = yield from self._command(command, call, warned)
            yield None
            if call.over:
                call.add(_too_long(call.limit, count))
                return
            if up_to_failure and not ok:
                return

    def _command(
        self, text: str, call: ScriptCall, warned: set[str]
    ) -> Generator[Sequence[Change] | None, Exception | None, bool]:
        """Run one command; whether it did its work."""
        now = datetime.fromtimestamp(self._context.clock.time(), UTC)
        begun = begin(text, self._catalog, now, warned)
        if isinstance(begun, Outcome):
            error = (yield begun.changes) if begun.changes else None
            reply = begun.reply if error is None else _failed(error)
            call.add(reply)
            return reply.ok
        continues = False
        ok = True
        for part in begun:
            if part is not None:
                call.add(part, continues=continues)
                continues = True
                ok = part.ok
            yield None
            if call.cancelled() or call.over:
                break
        return ok

    def _add(self, job: Job, *, now: bool) -> None:
        if self._ended is not None:
            job.failed(self._ended)
            return
        self._jobs.append(job)
        self._go_on(now=now)

    def _go_on(self, *, now: bool) -> None:
        """Go on with the jobs, up to the next change, now or in the next turn of the event loop."""
        if not self._busy and self._changing is None and self._jobs:
            self._busy = True
            slices = self._context.slices
            (slices.start if now else slices.run)(self._work(), self._worked)

    def _work(self) -> Work:
        while self._jobs and self._changing is None:
            self._step(self._jobs.popleft())
            yield

    def _worked(self, _: Exception | None) -> None:
        self._busy = False
        self._go_on(now=False)

    def _step(self, job: Job) -> None:
        error, job.error = job.error, None
        try:
            changes = job.steps.send(error)
        except StopIteration:
            return
        except Exception as wrong:
            contained(job.failed, mistake(wrong, "the command server"))
            return
        if changes:
            self._changing = job
            self._change(job, changes)
        elif job.call is not None and job.call.full:
            self._aside[job] = None
            job.call.wait(partial(self._back, job))
        else:
            self._jobs.append(job)

    def _back(self, job: Job) -> None:
        """The replies of a job that stood aside are read."""
        if self._aside.pop(job, job) is None:
            self._jobs.append(job)
            self._go_on(now=False)  # whoever reads is in the middle of writing

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
        self._jobs.appendleft(job)
        self._go_on(now=True)


def _single(make: Callable[[], Change | None], done: Done) -> Steps:
    try:
        change = make()
    except MQError as error:
        done(error)
    else:
        done(None if change is None else (yield (change,)))


def _failed(error: Exception) -> CommandReply:
    if isinstance(error, MQError):
        why = error.detail
    elif isinstance(error, StoreFullError):
        why = f"the store is full: {error}"
    else:
        why = f"the store failed, the outcome is unknown: {error}"
    return CommandReply(code="AMQ8101S", text=f"AMQ8101S: IBM MQ error: {why}.", ok=False)


def _too_long(limit: int, count: int) -> CommandReply:
    text = (
        f"AMQ8101S: IBM MQ error: the replies are over [limits] replies_bytes = {limit}. The first {count} commands "
        "were run, and the reply to the last of them may be cut off; those after them were not. Ask in several calls."
    )
    return CommandReply(code="AMQ8101S", text=text, ok=False)
