"""A member of the model in one life after the other, and what its programs do by way of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from tests.tools.holding_model.tables import Life, State, WrongError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.tools.holding_model.world import World

T = TypeVar("T")


class Lost:
    """The answer to a statement that was lost, or to one that has not come, or comes late."""


LOST: Final = Lost()

STEPS: Final = {
    "put": 1, "get_alone": 1, "get": 3, "put_in_unit": 2, "end": 2, "prepare": 1, "decide_elsewhere": 1,
    "begin_mixed": 1, "go_on_mixed": 2, "lock": 2, "get_locked": 2, "unlock": 1,
}  # fmt: skip
"""What programs do, and how often; a world has its own weights besides."""


@dataclass(slots=True)
class Work:
    """What a program knows of its unit of work: the places of what it got, and of what it put."""

    got: list[int] = field(default_factory=list)
    put: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.got or self.put)


@dataclass(slots=True)
class Mixed:
    """A unit whose private half is under way: `shared` is the end of its shared half, as far as it is known."""

    work: Work
    shared: State | None = None
    ended: bool = False


class Member:
    """A member and its programs. `private` is its own store, which outlives it: the private halves of mixed units, of
    which `halved` are all that there ever were.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_up = True
        self.private: dict[int, State] = {}
        self.halved: set[int] = set()
        self.pending: list[Callable[[], object]] = []
        self.begin(Life(name, world.tables.epochs[name]))

    def begin(self, life: Life) -> None:
        """A life begins. What is pending of an earlier one is made in this one, and does nothing there."""
        self.life = life
        self.turn = 0
        self.units: dict[int, Work] = {}
        self.mixed: dict[int, Mixed] = {}
        self.locks: dict[int, int] = {}
        self.unlocked: list[tuple[int, int]] = []

    def die(self) -> None:
        self.is_up = False
        self.pending.clear()

    def call(self, statement: Callable[[], T], then: Callable[[T | Lost], None]) -> None:
        """Make a statement: now or late, answered or not."""
        drawn = self.world.random.random()
        if drawn < 0.7:
            then(statement())
            return
        if drawn < 0.8:
            statement()
        elif drawn < 0.9:
            self.world.late.append(statement)
        then(LOST)

    def step(self) -> None:
        """One of its programs does something."""
        random = self.world.random
        self.turn += 2
        if self.pending and random.random() < 0.5:
            self.pending.pop()()
            return
        step = random.choices(list(STEPS), [share * self.world.weights[name] for name, share in STEPS.items()])[0]
        getattr(self, f"_{step}")()

    # Outside syncpoint

    def _put(self) -> None:
        world, life, turn, place = self.world, self.life, self.turn, self.world.new_place()

        def then(done: int | Lost | None) -> None:
            if isinstance(done, Lost):
                known = self._settle(turn)
                if known is None:
                    return
                done = place if known else None
            world.truth[place] = "never" if done is None else "there"

        self.call(lambda: world.tables.put(life, turn, place, 0, begins=False), then)

    def _settle(self, turn: int) -> bool | None:
        self.turn += 2
        return self.world.tables.settle(self.life, turn)

    def _get_alone(self) -> None:
        world, tables, turn = self.world, self.world.tables, self.turn
        get = tables.begin_get(self.life, turn)
        if get is None:
            return
        drawn = world.random.random()
        if not world.guards.in_hand:
            tables.commit(get)
            if drawn < 0.8:  # else the answer is lost, and nobody has the message
                world.consume(get.place)
            return
        if drawn < 0.15:  # the session is lost before COMMIT; the server hears of it now, or later
            if drawn < 0.1:
                tables.abort(get)
            return
        get.sent = True
        if drawn >= 0.3:
            tables.commit(get)
            world.consume(get.place)
            return
        known = self._settle(turn)
        if known:
            world.consume(get.place)
        elif known is None:
            world.truth[get.place] = "either"
        elif get in tables.open:  # nobody has waited for it
            world.late.append(lambda: tables.commit(get))

    # Units of work

    def _unit(self) -> tuple[int, Work, bool]:
        """Return a unit to join, or one that begins."""
        random = self.world.random
        if self.units and random.random() < 0.6:
            unit = random.choice(list(self.units))
            return unit, self.units[unit], False
        return self.world.new_name(), Work(), True

    def _get(self) -> None:
        world, life, turn = self.world, self.life, self.turn
        unit, work, begins = self._unit()

        def then(place: int | Lost | None) -> None:
            if isinstance(place, Lost):
                if begins:
                    self.pending.append(lambda: world.tables.undo(self.life, life, unit))
                else:
                    self._give_up(turn, unit, work)
            elif place is not None:
                work.got.append(place)
                self.units[unit] = work

        self.call(lambda: world.tables.get(life, turn, unit, begins=begins), then)

    def _put_in_unit(self) -> None:
        world, life, turn, place = self.world, self.life, self.turn, self.world.new_place()
        unit, work, begins = self._unit()

        def then(done: int | Lost | None) -> None:
            if isinstance(done, Lost):
                self._give_up(turn, unit, work)
            elif done is None:
                world.truth[place] = "never"
            else:
                work.put.append(place)
                self.units[unit] = work

        self.call(lambda: world.tables.put(life, turn, place, unit, begins=begins), then)

    def _give_up(self, turn: int, unit: int, work: Work) -> None:
        """A call of unknown outcome has failed: its program backs out."""
        if self._settle(turn) is None:
            self.units.pop(unit, None)
        else:
            self._finish(unit, work, State.BACKED_OUT)

    def _end(self) -> None:
        if self.units:
            unit = self.world.random.choice(list(self.units))
            state = self.world.random.choice((State.COMMITTED, State.COMMITTED, State.BACKED_OUT))
            self._finish(unit, self.units[unit], state)

    def _finish(self, unit: int, work: Work, state: State) -> State | None:
        """End a unit; the end that it has come to, if that is known."""
        world, life, tables = self.world, self.life, self.world.tables
        self.units.pop(unit, None)
        known: State | None = None

        def end() -> State | None:
            if world.guards.one_transaction:
                return tables.end(life, unit, state)
            decided = tables.end(life, unit, state, move=False)
            if decided is not None:
                world.late.append(lambda: tables.end(life, unit, state, decide=False))
            return decided

        def then(ended: State | Lost | None) -> None:
            nonlocal known
            if isinstance(ended, Lost):
                ended = tables.outcome(life, unit) if world.guards.outcome_read else State.BACKED_OUT
            known = ended
            if ended is None and work and world.guards.fence and tables.passes(life):
                raise WrongError("a unit is over though its life goes on")
            world.ended(work.got, work.put, ended)

        self.call(end, then)
        return known

    # Units that are decided elsewhere

    def _prepare(self) -> None:
        """A program that commits in its own database prepares the unit first."""
        world, life, tables = self.world, self.life, self.world.tables
        if not self.units:
            return
        unit = world.random.choice(list(self.units))
        work = self.units.pop(unit)

        def then(done: bool | Lost | None) -> None:
            world.doubts[unit] = work
            if done is True:
                return
            if done is None and tables.passes(life) and world.guards.fence:
                raise WrongError("a unit is over though its life goes on")
            world.decide(unit, State.BACKED_OUT)
            tables.end(life, unit, State.BACKED_OUT)  # where it is not prepared after all, it ends here

        self.call(lambda: tables.prepare(life, unit), then)

    def _decide_elsewhere(self) -> None:
        """A program's database decides a unit; nobody needs a member for that."""
        world = self.world
        if open_ones := [unit for unit in world.doubts if unit not in world.decisions]:
            unit = world.random.choice(open_ones)
            world.decide(unit, world.random.choice((State.COMMITTED, State.COMMITTED, State.BACKED_OUT)))

    def resolve(self) -> None:
        """A resolver carries out what was decided of any unit in doubt, of whichever member; or an operator decides."""
        world, life = self.world, self.life
        by_hand = world.random.random() < 0.1
        units = [unit for unit in world.doubts if unit in world.tables.units and (by_hand or unit in world.decisions)]
        if not units:
            return
        unit = world.random.choice(units)
        state = world.random.choice((State.COMMITTED, State.BACKED_OUT)) if by_hand else world.decisions[unit]
        if by_hand:
            if world.tables.units[unit].state is not State.PREPARED:
                return
            world.decided_by_hand(unit)
        self.call(lambda: world.tables.decide(life, unit, state), lambda _: None)

    # Mixed units

    def _begin_mixed(self) -> None:
        """The shared unit has a private half from now on: that is prepared first."""
        if self.units:
            unit = self.world.random.choice(list(self.units))
            self.mixed[unit] = Mixed(self.units.pop(unit))
            self.halved.add(unit)
            if self.world.guards.private_first:
                self.private[unit] = State.PREPARED

    def _go_on_mixed(self) -> None:
        """Commit the shared half, then the private one, then forget the unit: a step at a time."""
        if not self.mixed:
            return
        tables, life = self.world.tables, self.life
        unit = self.world.random.choice(list(self.mixed))
        mixed = self.mixed[unit]
        if not mixed.ended:
            mixed.shared = self._finish(unit, mixed.work, State.COMMITTED)
            mixed.ended = True
            if not self.world.guards.row_stays:
                tables.forget(life, unit)
        elif mixed.shared is None:
            del self.mixed[unit]  # its outcome is read in the next life
        elif self.private.get(unit) is not mixed.shared:
            self.private[unit] = mixed.shared
        else:
            tables.forget(life, unit)
            del self.mixed[unit]

    def resolve_private(self) -> bool:
        """A life has begun: end private halves that are prepared. True if all have ended."""
        tables = self.world.tables
        for unit, state in self.private.items():
            if state is State.PREPARED and unit not in self.mixed:
                outcome = tables.outcome(self.life, unit)
                if outcome is None:
                    return False
                self.private[unit] = outcome
        return True

    # Browse locks

    def _lock(self) -> None:
        world, life, turn, handle = self.world, self.life, self.turn, self.world.new_name()

        def then(place: int | Lost | None) -> None:
            if isinstance(place, Lost):
                self.pending.append(lambda: world.tables.unlock(self.life, life, handle))
            elif place is not None:
                self.locks[handle] = place

        self.call(lambda: world.tables.lock(life, turn, handle), then)

    def _unlock(self) -> None:
        world, life = self.world, self.life
        if self.locks:
            handle = world.random.choice(list(self.locks))
            self.unlocked.append((handle, self.locks.pop(handle)))
            self.call(lambda: world.tables.unlock(life, life, handle), lambda _: None)

    def _get_locked(self) -> None:
        """Get what a handle has locked, or had locked until a moment ago."""
        world, life, turn, unit = self.world, self.life, self.turn, self.world.new_name()
        stale = self.unlocked and world.random.random() < 0.4
        candidates = self.unlocked if stale else list(self.locks.items())
        if not candidates:
            return
        handle, place = world.random.choice(candidates)
        self.locks.pop(handle, None)
        work = Work()

        def then(got: int | Lost | None) -> None:
            if isinstance(got, Lost):
                self.pending.append(lambda: world.tables.undo(self.life, life, unit))
                self.pending.append(lambda: world.tables.unlock(self.life, life, handle))
            elif got is not None:
                work.got.append(got)
                self.units[unit] = work

        self.call(lambda: world.tables.get_locked(life, turn, unit, place, handle), then)
