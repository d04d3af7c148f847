"""The programs of the model, as generators: a step between two `yield`s, and anything may happen at each of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tests.tools.transactions_model.database import ABORTED, COMMITTED, Marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.tools.transactions_model.database import ModelDatabase, Session
    from tests.tools.transactions_model.queue_manager import Line, ModelManager, Reply
    from tests.tools.transactions_model.world import World

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


class WrongError(Exception):
    """Something was lost, doubled, or out of its order."""


def answered(manager: ModelManager, reply: Reply) -> Steps[str]:
    """Wait for an answer; with the queue manager's life it is lost."""
    life = manager.life
    while not reply.done:
        if manager.life != life:
            reply.set("lost")
            break
        yield
    return str(reply.value)


class Commit:
    """The protocol: what the framework does round the program's SQL."""

    def __init__(self, world: World, manager: ModelManager, line: Line, session: Session) -> None:
        self.world = world
        self.guards = world.guards
        self.database = world.database
        self.manager = manager
        self.line = line
        self.session = session
        self.unit = world.new_name()

    def run(self, message: str | None, puts: list[str]) -> Steps[str]:
        """Commit both: "committed", "failed" (so the attempt ends), "gone", or "unknown": a resolver decides."""
        guards, database, manager = self.guards, self.database, self.manager
        if guards.marker_first:
            if (yield from self._mark()) != "ok":
                database.abort(self.session)
                return "failed"
            yield
        if guards.prepare_first:
            if (yield from self._prepare(message, puts)) != "ok":
                database.abort(self.session)
                return "gone"
            yield
        if not guards.marker_first:
            if (yield from self._mark()) != "ok":
                database.abort(self.session)
                yield from answered(manager, manager.decide(self.unit, commit=False))
                return "failed"
            yield
        if not guards.decide_late:
            manager.decide(self.unit, commit=True)
        database.commit(self.session)
        ended = yield from self._committed()
        if ended is not None:
            return ended
        if not guards.prepare_first:
            yield from self._prepare(message, puts)
            yield
        answer = yield from answered(manager, manager.decide(self.unit, commit=True))
        yield
        if answer == "ok":  # decided and durable: nobody needs the marker
            database.markers.pop(self.unit, None)
        return "committed"

    def _mark(self) -> Steps[str]:
        if not self.guards.marker:
            return "ok"
        marker = Marker(self.manager.name, COMMITTED)
        while (answer := self.database.insert(self.session, self.unit, marker)) == "blocked":
            yield
        return answer

    def _prepare(self, message: str | None, puts: list[str]) -> Steps[str]:
        return (yield from answered(self.manager, self.manager.prepare(self.line, message, self.unit, puts, "D")))

    def _committed(self) -> Steps[str | None]:
        """Wait for the answer to COMMIT. None: it is done."""
        session, manager, guards = self.session, self.manager, self.guards
        while True:
            yield
            if session.cut:
                if not guards.empty_commit and session.state == "aborted":
                    return None  # an empty transaction was committed: "done"
                if not guards.unknown_not_done:
                    return None
                if not guards.unknown_asks:
                    yield from answered(manager, manager.decide(self.unit, commit=False))
                    return "failed"
                known = yield from probe(self.world, self.database, manager, self.unit)
                if self.unit in manager.units:
                    manager.units[self.unit].owner = None  # given up: a resolver's
                return "committed" if known else "unknown"
            if session.state == "committed":
                return None
            if session.state == "aborted":
                yield from answered(manager, manager.decide(self.unit, commit=False))
                return "failed"


def probe(world: World, database: ModelDatabase, manager: ModelManager, unit: str) -> Steps[bool]:
    """Ask the database for the decision: insert the marker as aborted."""
    if world.guards.probe_insert:
        session = database.begin("probe")
        while (answer := database.insert(session, unit, Marker(manager.name, ABORTED))) == "blocked":
            yield
        if answer == "lost":
            return False
        if answer == "ok":
            database.commit(session)
            while session.state == "committing" and not session.cut:
                yield
            if session.cut:
                return False
        yield
    marker = database.markers.get(unit)
    committed = marker is not None and marker.outcome == COMMITTED
    yield
    answer = yield from answered(manager, manager.decide(unit, commit=committed))
    yield
    left = database.markers.get(unit)
    if answer in ("ok", "unknown") and left is not None and left.outcome == ABORTED:
        database.clean(unit)  # as early as can be
    return committed


def worker(world: World, me: str) -> Steps[None]:
    """Handle messages, each with one step that is kept."""
    manager = world.managers[0]
    line = world.lines[me] = manager.connect()
    while True:
        if line not in manager.lines:
            line = world.lines[me] = manager.connect()
        message = manager.take(line)
        yield
        if message is None:
            continue
        stored = manager.durable.messages.get(message)
        kept = None if stored is None else stored.kept  # as handed over with the message
        holds = line in manager.lines and manager.held.get(message) == line
        if holds and world.returned.setdefault(message, kept) not in (None, kept):
            raise WrongError(f"a finished step of {message} ran again, or has another result")
        if kept is None:
            yield  # the step's own work
            answer = yield from answered(manager, manager.step(line, message, me))
            yield
            if answer != "ok":
                continue
            world.returned[message] = world.returned.get(message) or me
        session = world.database.begin(me)
        session.effects.append(message)
        yield
        yield from Commit(world, manager, line, session).run(message, [f"{message}>1", f"{message}>2"])
        if manager.held.get(message) == line:
            del manager.held[message]


def producer(world: World, me: str, number: int, name: str) -> Steps[None]:
    """Put one message and insert one row."""
    manager = world.managers[number]
    line = world.lines[me] = manager.connect()
    session = world.database.begin(me)
    session.effects.append(name)
    yield
    world.acknowledged[name] = yield from Commit(world, manager, line, session).run(None, [f"{name}>"])


def resolver(world: World, database: ModelDatabase, id: str, numbers: Sequence[int]) -> Steps[None]:
    """Decide what has no owner."""
    while True:
        orphans = [(world.managers[number], each) for number in numbers for each in world.managers[number].orphans()]
        for manager, (unit, of) in orphans:
            if of == id or not world.guards.identity:
                yield from probe(world, database, manager, unit)
            elif not world.guards.no_age:
                yield from answered(manager, manager.decide(unit, commit=False))
        yield


def cleaner(world: World, number: int) -> Steps[None]:
    """Delete markers whose units are not in doubt."""
    manager, database, guards = world.managers[number], world.database, world.guards
    while True:
        if guards.clean_order:
            seen = list(database.markers.items())
            yield
            doubt = {unit for unit, _ in seen if manager.in_doubt(unit)}
            yield
        else:
            doubt = set(manager.units)
            yield
            yield
            seen = list(database.markers.items())
            yield
        for unit, marker in seen:
            if unit not in doubt and (marker.q_mgr == manager.name or not guards.clean_owner):
                database.clean(unit)
        yield
