"""The model's queue manager: what is durable, what is in memory, and the journal between the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tests.tools.transactions_model.guards import Guards

Line: TypeAlias = tuple[str, int, float]
"""A connection: the queue manager, its life, and a number."""


class Reply:
    """An answer to come; the first one holds."""

    def __init__(self) -> None:
        self.done = False
        self.value: str | None = None

    def set(self, value: str) -> None:
        if not self.done:
            self.done, self.value = True, value


@dataclass(slots=True)
class StoredMessage:
    """A message: its order key, the kept result of its step, and how many steps are on their way."""

    key: str
    kept: str | None = None
    coming: int = 0


@dataclass(slots=True)
class StoredUnit:
    """A prepared unit as it is durable."""

    gets: list[str]
    puts: list[str]
    database: str


@dataclass(slots=True)
class HeldUnit:
    """A prepared unit in memory, with its owner and those who wait for a decision about it."""

    gets: list[str]
    puts: list[str]
    database: str
    owner: Line | None
    state: str
    waiting: list[Reply] = field(default_factory=list)


class Durable:
    """What is on the disk."""

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = {each: StoredMessage(each[-1]) for each in messages}
        self.units: dict[str, StoredUnit] = {}
        self.out: list[str] = []


Write: TypeAlias = Callable[[Durable], None]


class ModelManager:
    """One queue manager."""

    def __init__(self, guards: Guards, rng: random.Random, name: str, messages: Iterable[str]) -> None:
        self.guards = guards
        self.rng = rng
        self.name = name
        self.durable = Durable(messages)
        self.life = 0
        self._load()

    def _load(self) -> None:
        self.journal: list[tuple[Write, Callable[[], None]]] = []
        self.messages = {name: StoredMessage(each.key, each.kept) for name, each in self.durable.messages.items()}
        self.units = {
            name: HeldUnit(each.gets, each.puts, each.database, None, "in_doubt")
            for name, each in self.durable.units.items()
        }
        self.held: dict[str, Line] = {}
        self.lines: set[Line] = set()
        self.got = {message for unit in self.units.values() for message in unit.gets}

    def flush(self) -> None:
        """Some of the journal is durable, and answered."""
        count = self.rng.randint(1, len(self.journal))
        batch, self.journal = self.journal[:count], self.journal[count:]
        for write, _ in batch:
            write(self.durable)
        for _, then in batch:
            then()

    def crash(self) -> None:
        """Some of the journal is durable, and nothing of it answered."""
        for write, _ in self.journal[: self.rng.randint(0, len(self.journal))]:
            write(self.durable)
        self.life += 1
        self._load()

    def connect(self) -> Line:
        line = (self.name, self.life, self.rng.random())
        self.lines.add(line)
        return line

    def cut(self, line: Line | None) -> None:
        """A connection has ended."""
        if line is not None:
            self.lines.discard(line)
        for message, owner in list(self.held.items()):
            if owner == line:
                del self.held[message]
        for unit in self.units.values():
            if unit.owner == line:
                unit.owner = None
                if not self.guards.hold and unit.state == "in_doubt":
                    self.got -= set(unit.gets)
                    unit.gets = []

    def take(self, line: Line) -> str | None:
        """Hand out a message."""
        if line not in self.lines:
            return None
        busy = {each.key for name, each in self.messages.items() if name in self.held or self._is_coming(each)}
        if self.guards.order_hold:
            busy |= {self.messages[name].key for name in self.got if name in self.messages}
        for name in sorted(self.messages):
            each = self.messages[name]
            if name not in self.held and name not in self.got and not self._is_coming(each) and each.key not in busy:
                self.held[name] = line
                return name
        return None

    def _is_coming(self, message: StoredMessage) -> bool:
        return bool(message.coming) and self.guards.step_settled

    def step(self, line: Line, name: str, value: str) -> Reply:
        """Keep the result of a step with its message."""
        reply = Reply()
        message = self.messages.get(name)
        is_held = line in self.lines and self.held.get(name) == line
        if message is None or (not is_held and self.guards.step_fence):
            reply.set("gone")
            return reply
        message.coming += 1

        def write(durable: Durable) -> None:
            if name in durable.messages:
                durable.messages[name].kept = value

        def then() -> None:
            if name in self.messages:
                self.messages[name].coming -= 1
            reply.set("ok" if line in self.lines else "lost")

        self.journal.append((write, then))
        if not self.guards.step_durable:
            reply.set("ok")
        return reply

    def prepare(self, line: Line, message: str | None, unit: str, puts: list[str], database: str) -> Reply:
        """Prepare a unit, of a delivery where there is a message."""
        reply = Reply()
        holds = message is not None and self.held.get(message) == line
        if line not in self.lines or (message is not None and not holds and self.guards.fence):
            reply.set("gone")
            return reply
        gets = [message] if message is not None and holds else []
        held = self.units[unit] = HeldUnit(gets, puts, database, line, "preparing")
        for each in gets:
            del self.held[each]
            self.got.add(each)

        def write(durable: Durable) -> None:
            durable.units[unit] = StoredUnit(gets, puts, database)

        def then() -> None:
            if held.state == "preparing":
                held.state = "in_doubt"
            reply.set("ok" if line in self.lines else "lost")

        self.journal.append((write, then))
        if not self.guards.prepare_durable:
            reply.set("ok")
        return reply

    def decide(self, unit: str, *, commit: bool) -> Reply:
        """End a unit."""
        reply = Reply()
        held = self.units.get(unit)
        if held is None:
            reply.set("unknown")
            return reply
        if held.state == "deciding":
            held.waiting.append(reply)
            return reply
        held.state = "deciding"
        held.waiting = [reply]

        def write(durable: Durable) -> None:
            stored = durable.units.pop(unit, None)
            if stored is not None and commit:
                for message in stored.gets:
                    durable.messages.pop(message, None)
                durable.out += stored.puts

        def then() -> None:
            self.units.pop(unit, None)
            self.got -= set(held.gets)
            if commit:
                for message in held.gets:
                    self.messages.pop(message, None)
            for waiter in held.waiting:
                waiter.set("ok")

        self.journal.append((write, then))
        return reply

    def orphans(self) -> list[tuple[str, str]]:
        """The units without owner, each with its database."""
        return [
            (name, unit.database)
            for name, unit in self.units.items()
            if unit.owner is None and unit.state == "in_doubt"
        ]

    def in_doubt(self, unit: str) -> bool:
        held = self.units.get(unit)
        return held is not None and (held.state in ("in_doubt", "preparing") or self.guards.clean_durable)
