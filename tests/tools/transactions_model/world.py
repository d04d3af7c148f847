"""A world of the model: programs, two queue managers, two databases, and what goes wrong, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.tools.transactions_model.database import ModelDatabase
from tests.tools.transactions_model.guards import Guards
from tests.tools.transactions_model.programs import WrongError, cleaner, producer, resolver, worker
from tests.tools.transactions_model.queue_manager import ModelManager

if TYPE_CHECKING:
    from tests.tools.transactions_model.programs import Steps
    from tests.tools.transactions_model.queue_manager import Line

TURNS_MAX: Final = 3000
QUIET_AFTER: Final = 260
"""The turn after which nothing goes wrong any more: then all must come to its end."""

FAULTS: Final = ("kill", "kill", "kill", "cut", "freeze", "qm", "db", "dbcut", "timeout", "freeze")


class Program(NamedTuple):
    """A program that runs: its steps, and how it is begun again."""

    steps: Steps[None]
    begin: Callable[[str], Steps[None]]
    kind: str


class World:
    """Two workers, two producers, a resolver, one that is pointed at another database, and two cleaners."""

    def __init__(self, seed: int, guards: Guards, faults: int = 4) -> None:
        self.rng = random.Random(seed)
        self.guards = guards
        self.faults = faults
        self.quiet = False
        self.database = ModelDatabase(guards, waits=seed % 3 > 0)
        self.staging = ModelDatabase(guards, waits=True)
        self.messages = ["1a", "2a", "3b"]
        self.managers = [
            ModelManager(guards, self.rng, "Q1", self.messages),
            ModelManager(guards, self.rng, "Q2", []),
        ]
        self.acknowledged: dict[str, str] = {}
        self.returned: dict[str, str | None] = {}
        self.lines: dict[str, Line] = {}
        self._names = 0
        self._alive: dict[str, Program] = {}
        self._frozen: dict[str, int] = {}
        for _ in range(2):
            self._spawn("worker", partial(worker, self))
        self._spawn("p1", lambda me: producer(self, me, 0, "p1"))
        self._spawn("p2", lambda me: producer(self, me, 1, "p2"))
        self._spawn("resolver", lambda _: resolver(self, self.database, "D", (0, 1)))
        self._spawn("cleaner", lambda _: cleaner(self, 0))
        self._spawn("stray", lambda _: resolver(self, self.staging, "S", (0,)))
        self._spawn("cleaner2", lambda _: cleaner(self, 1))

    def new_name(self) -> str:
        self._names += 1
        return f"U{self._names}"

    def _spawn(self, kind: str, begin: Callable[[str], Steps[None]]) -> None:
        self._names += 1
        me = f"{kind}.{self._names}"
        self._alive[me] = Program(begin(me), begin, kind)

    def run(self) -> None:
        """Run until all has ended. Raises WrongError."""
        for turn in range(TURNS_MAX):
            self.quiet = turn > QUIET_AFTER
            self._turn()
            if self._is_over():
                break
        else:
            units = [list(manager.units) for manager in self.managers]
            raise WrongError(
                f"stuck: units {units} messages {list(self.managers[0].messages)} markers {self.database.markers}"
            )
        self._check()

    # What happens

    def _turn(self) -> None:
        drawn, manager = self.rng.random(), self.rng.choice(self.managers)
        if drawn < 0.2:
            if manager.journal:
                manager.flush()
        elif drawn < 0.35:
            self._serve()
        elif drawn < 0.39 and self.faults and not self.quiet:
            self.faults -= 1
            self._fail()
        else:
            self._step()

    def _serve(self) -> None:
        """The servers of the databases: COMMITs, and sessions whose client has gone."""
        for database in (self.database, self.staging):
            database.sessions = [each for each in database.sessions if each.state in ("open", "committing")]
            due = [each for each in database.sessions if each.state == "committing" or each.cut]
            if due:
                session = self.rng.choice(due)
                if session.state == "committing":
                    database.serve(session)
                else:
                    database.abort(session)

    def _step(self) -> None:
        me = self.rng.choice(list(self._alive))
        if self._frozen.get(me, 0) > 0 and not self.quiet:
            self._frozen[me] -= 1
            return
        try:
            next(self._alive[me].steps)
        except StopIteration:
            self._alive.pop(me)

    def _fail(self) -> None:
        kind = self.rng.choice(FAULTS)
        if kind == "qm":
            for manager in self.managers[:1] if self.rng.random() < 0.7 else self.managers:
                manager.crash()
        elif kind == "db":
            self.rng.choice([self.database, self.database, self.staging]).crash()
        elif kind == "dbcut":
            going = [each for each in self.database.sessions if each.state in ("open", "committing") and not each.cut]
            if going:
                self.rng.choice(going).cut = True  # a COMMIT under way goes on without its client
        else:
            me = self.rng.choice([each for each in self._alive if not each.startswith("stray")])
            self._fail_program(me, kind)

    def _fail_program(self, me: str, kind: str) -> None:
        line = self.lines.get(me)
        if kind == "cut":
            for manager in self.managers:
                manager.cut(line)
        elif kind == "timeout":  # its attempt has failed, and it goes on all the same
            held = self.managers[0].held
            for message, owner in list(held.items()):
                if owner == line:
                    del held[message]
        elif kind == "freeze":
            self._frozen[me] = self.rng.randint(5, 60)
            for manager in self.managers:
                if self.rng.random() < 0.8:
                    manager.cut(line)
        else:
            self._kill(me)

    def _kill(self, me: str) -> None:
        program = self._alive.pop(me)
        for manager in self.managers:
            manager.cut(self.lines.get(me))
        for session in self.database.sessions:
            session.cut = session.cut or session.who == me
        if not program.kind.startswith("p"):
            self._spawn(program.kind, program.begin)

    # What must be

    def _is_over(self) -> bool:
        return not (
            any(manager.units or manager.journal for manager in self.managers)
            or self.managers[0].messages
            or any(each.startswith("p") for each in self._alive)
            or self.database.markers
            or any(each.state == "committing" for each in self.database.sessions)
        )

    def _check(self) -> None:
        out = self.managers[0].durable.out + self.managers[1].durable.out
        effects = self.database.effects
        for message in self.messages:
            if effects.count(message) != 1:
                raise WrongError(f"{message}: {effects.count(message)} effects")
            if out.count(f"{message}>1") != 1 or out.count(f"{message}>2") != 1:
                raise WrongError(f"{message}: put {out.count(f'{message}>1')} times")
        if [each for each in effects if each[-1] == "a"] != ["1a", "2a"]:
            raise WrongError(f"order {effects}")
        for name in ("p1", "p2"):
            rows, puts = effects.count(name), out.count(f"{name}>")
            if rows != puts or puts > 1:
                raise WrongError(f"{name}: {rows} rows, {puts} messages")
            if self.acknowledged.get(name) == "committed" and not rows:
                raise WrongError(f"{name}: told committed, and is not")


class Found(NamedTuple):
    """The schedule in which something has gone wrong, and what."""

    seed: int
    what: str


def explore(guards: Guards, first: int, last: int) -> Found | None:
    """Run the schedules of these seeds, until something goes wrong."""
    for seed in range(first, last):
        try:
            World(seed, guards, 2 + seed % 5).run()
        except WrongError as error:
            return Found(seed, str(error))
    return None
