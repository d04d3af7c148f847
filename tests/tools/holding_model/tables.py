"""The tables of the model, and the statements on them: each is a transaction. None: it was refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

    from tests.tools.holding_model.guards import Guards

MEMBERS = ("A", "B", "C")


class WrongError(Exception):
    """Something was lost, doubled, torn or stranded, or what must hold does not."""


class State(Enum):
    """The state of a unit of work."""

    ACTIVE = "active"
    PREPARED = "prepared"
    COMMITTED = "committed"
    BACKED_OUT = "backed out"


class Kind(Enum):
    """How a message is held."""

    GOT = "got"
    PUT = "put"
    LOCKED = "locked"
    CLAIMED = "claimed"


class Life(NamedTuple):
    """A member, in one life of it; `NOBODY` where a message is held by a consumer."""

    member: str
    epoch: int


NOBODY = Life("", 0)


class Held(NamedTuple):
    """A message that is held: how, by whose life, in which unit or by which handle, and its number as a claim."""

    kind: Kind
    life: Life
    unit: int
    backouts: int
    number: int = 0


@dataclass(slots=True)
class Unit:
    """The row of a unit of work: its state is the decision."""

    life: Life
    state: State


@dataclass(slots=True, eq=False)
class OpenGet:
    """A get outside syncpoint: a transaction in which a message is deleted, and which is not committed yet."""

    life: Life
    turn: int
    place: int
    backouts: int
    sent: bool = False  # COMMIT


@dataclass(slots=True)
class Consumer:
    """A consumer's row: `next` is the number of the claim to come."""

    generation: int = 0
    acknowledged: int = 0
    next: int = 1


@dataclass(slots=True)
class Tables:
    """The database of a group."""

    guards: Guards
    random: Random
    message: dict[int, int] = field(default_factory=dict)  # the backout count, by place
    held: dict[int, Held] = field(default_factory=dict)
    units: dict[int, Unit] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBERS, 1))
    recoverers: dict[str, str] = field(default_factory=dict)
    recovered: dict[str, int] = field(default_factory=dict)  # the claimed epoch of the last recovery that is over
    turns: dict[Life, int] = field(default_factory=dict)
    open: list[OpenGet] = field(default_factory=list)
    consumer: Consumer = field(default_factory=Consumer)
    depth: int = 0
    gets: Counter[int] = field(default_factory=Counter)  # under syncpoint, by place

    # What each statement begins with

    def passes(self, life: Life) -> bool:
        """True if this life may write."""
        return not self.guards.fence or self.epochs[life.member] == life.epoch

    def in_turn(self, life: Life, turn: int) -> bool:
        return not self.guards.turn or self.turns.get(life, 0) < turn

    def _take_turn(self, life: Life, turn: int) -> None:
        self.turns[life] = max(turn, self.turns.get(life, 0))

    def _enters(self, life: Life, unit: int, *, begins: bool) -> bool:
        if begins:
            if unit in self.units:
                return False
            self.units[unit] = Unit(life, State.ACTIVE)
            return True
        return not self.guards.entered or self.units.get(unit) == Unit(life, State.ACTIVE)

    # Puts, gets and locks

    def put(self, life: Life, turn: int, place: int, unit: int, *, begins: bool) -> int | None:
        """Put a message; unit 0: outside syncpoint."""
        if not self.passes(life) or not self.in_turn(life, turn):
            return None
        if unit and not self._enters(life, unit, begins=begins):
            return None
        self._take_turn(life, turn)
        if place in self.message or place in self.held:
            raise WrongError("put twice")
        if unit:
            self.held[place] = Held(Kind.PUT, life, unit, 0)
        else:
            self.message[place] = 0
        self.depth += 1
        return place

    def get(self, life: Life, turn: int, unit: int, *, begins: bool) -> int | None:
        """Get the first message, under syncpoint."""
        if not self.passes(life) or not self.in_turn(life, turn) or not self.message:
            return None
        if not self._enters(life, unit, begins=begins):
            return None
        self._take_turn(life, turn)
        place = min(self.message)
        self.held[place] = Held(Kind.GOT, life, unit, self.message.pop(place))
        self.gets[place] += 1
        self.depth -= 1
        return place

    def lock(self, life: Life, turn: int, handle: int) -> int | None:
        """Lock the first message, for a browse."""
        if not self.passes(life) or not self.in_turn(life, turn) or not self.message:
            return None
        self._take_turn(life, turn)
        place = min(self.message)
        self.held[place] = Held(Kind.LOCKED, life, handle, self.message.pop(place))
        return place

    def get_locked(self, life: Life, turn: int, unit: int, place: int, handle: int) -> int | None:
        """Get what a handle has locked, under syncpoint, in a unit that begins with it."""
        if not self.passes(life) or not self.in_turn(life, turn):
            return None
        held = self.held.get(place)
        if held is None or held.kind is not Kind.LOCKED:
            return None
        if self.guards.lock_of_handle and (held.life, held.unit) != (life, handle):
            return None
        if not self._enters(life, unit, begins=True):
            return None
        self._take_turn(life, turn)
        self.held[place] = Held(Kind.GOT, life, unit, held.backouts)
        self.gets[place] += 1
        self.depth -= 1
        return place

    def unlock(self, life: Life, then: Life, handle: int) -> bool | None:
        """Unlock what a handle has locked in a life, `then`."""
        if not self.passes(life):
            return None
        if self.guards.epoch_named and life != then:
            return None
        self.put_back(then, handle, kinds=(Kind.LOCKED,))
        return True

    # Units of work

    def put_back(self, life: Life, unit: int, kinds: tuple[Kind, ...] = (Kind.GOT, Kind.PUT, Kind.LOCKED)) -> None:
        """The only way back: what was got, locked or claimed is free again; what was put is gone."""
        for place, held in list(self.held.items()):
            if (held.life, held.unit) != (life, unit) or held.kind not in kinds:
                continue
            del self.held[place]
            if held.kind is Kind.PUT:
                self.depth -= 1
                continue
            counts = held.kind is Kind.GOT or not self.guards.got_counted
            self.message[place] = held.backouts + counts
            self.depth += held.kind is Kind.GOT

    def _carry_out(self, life: Life, unit: int, state: State) -> None:
        """Move the rows of a unit that is decided."""
        if state is State.BACKED_OUT:
            self.put_back(life, unit)
            return
        for place, held in list(self.held.items()):
            if (held.life, held.unit) == (life, unit):
                del self.held[place]
                if held.kind is Kind.PUT:
                    self.message[place] = held.backouts

    def end(self, life: Life, unit: int, state: State, *, decide: bool = True, move: bool = True) -> State | None:
        """Commit a unit, or back it out."""
        if decide:
            if not self.passes(life):
                return None
            if self.guards.active_end and self.units.get(unit) != Unit(life, State.ACTIVE):
                return None
            self.units[unit] = Unit(life, state)
        if move:
            self._carry_out(life, unit, state)
        return state

    def outcome(self, life: Life, unit: int) -> State | None:
        """Return what has become of a unit of this member; what nobody has decided is backed out. None: refused."""
        if not self.passes(life):
            return None
        known = self.units.get(unit)
        if known is None:
            self.units[unit] = Unit(life, State.BACKED_OUT)
            return State.BACKED_OUT
        if known.state is State.ACTIVE:
            if self.guards.outcome_written:
                known.state = State.BACKED_OUT
                self.put_back(known.life, unit)
            return State.BACKED_OUT
        return known.state

    def undo(self, life: Life, then: Life, unit: int) -> State | None:
        """Take back a get of unknown outcome that began a unit in a life, `then`."""
        if not self.passes(life):
            return None
        if not self.guards.epoch_named:
            self.units.pop(unit, None)
            self.put_back(life, unit, kinds=(Kind.GOT,))
            return State.BACKED_OUT
        if life != then:
            return None
        if unit in self.units:
            return self.end(then, unit, State.BACKED_OUT)
        self.units[unit] = Unit(then, State.BACKED_OUT)
        return State.BACKED_OUT

    def prepare(self, life: Life, unit: int) -> bool | None:
        """Prepare a unit: its end is decided elsewhere."""
        if not self.passes(life):
            return None
        known = self.units.get(unit)
        if known is None or (self.guards.prepare_active and known != Unit(life, State.ACTIVE)):
            return None
        known.state = State.PREPARED
        return True

    def decide(self, life: Life, unit: int, state: State) -> bool | None:
        """Carry out a decision from elsewhere, by way of any member."""
        known = self.units.get(unit)
        if not self.passes(life) or known is None:
            return None
        if self.guards.decided_once and known.state is not State.PREPARED:
            return None
        known.state = state
        self._carry_out(known.life if self.guards.decided_life else life, unit, state)
        return True

    def forget(self, life: Life, unit: int) -> None:
        """Nobody needs the row any more."""
        if self.passes(life) and unit in self.units and self.units[unit].state is not State.ACTIVE:
            del self.units[unit]

    # Outside syncpoint

    def begin_get(self, life: Life, turn: int) -> OpenGet | None:
        """Delete the first message in a transaction that stays open."""
        if not self.passes(life) or not self.in_turn(life, turn) or not self.message:
            return None
        place = min(self.message)
        get = OpenGet(life, turn, place, self.message.pop(place))
        self.depth -= 1
        self.open.append(get)
        return get

    def commit(self, get: OpenGet) -> None:
        if get in self.open:
            self.open.remove(get)
            self._take_turn(get.life, get.turn)

    def abort(self, get: OpenGet) -> None:
        """The session has ended: the server rolls back."""
        if get in self.open:
            self.open.remove(get)
            self.message[get.place] = get.backouts
            self.depth += 1

    def settle(self, life: Life, turn: int) -> bool | None:
        """Return whether a turn was committed; if it was not, it never will be."""
        get = next((each for each in self.open if (each.life, each.turn) == (life, turn)), None)
        if get is not None and self.guards.settled:
            end = self.commit if get.sent and self.random.random() < 0.5 else self.abort
            end(get)
        if not self.passes(life):
            return None
        last = self.turns.get(life, 0)
        self.turns[life] = last if last >= turn else turn + 1
        return last == turn

    # Lives

    def begin_life(self, member: str) -> Life:
        """A member starts, perhaps one that has only been thought dead."""
        self.epochs[member] += 1
        self.recoverers.pop(member, None)
        self._end_sessions(member)
        return Life(member, self.epochs[member])

    def take_over(self, by: Life, of: str, seen: int) -> int | None:
        """Begin the recovery of a peer; the claimed epoch."""
        if not self.passes(by) or self.epochs[of] != seen or of in self.recoverers:
            return None
        self.epochs[of] += 1
        self.recoverers[of] = by.member
        self._end_sessions(of)
        return self.epochs[of]

    def _end_sessions(self, member: str) -> None:
        for get in [each for each in self.open if each.life.member == member]:
            self.abort(get)

    def recover(self, by: Life, of: str, claimed: int) -> str | None:
        """Take one step of a recovery: "more", or "done" where nothing was left."""
        if not self.passes(by):
            return None
        if by.member != of and (self.epochs[of], self.recoverers.get(of)) != (claimed, by.member):
            return None
        if self._recover_unit(of, claimed):
            return "more"
        for held in self.held.values():
            if held.life.member == of and held.life.epoch < claimed and self._is_left(held):
                self.put_back(held.life, held.unit, kinds=tuple(Kind))
                return "more"
        if any(self._is_stray(held, of, claimed) for held in self.held.values()):
            return "stuck"
        self.recovered[of] = max(self.recovered.get(of, 0), claimed)
        return "done"

    def _recover_unit(self, of: str, claimed: int) -> bool:
        guards = self.guards
        for name, unit in self.units.items():
            older = unit.life.epoch < claimed or not guards.older_lives
            left = unit.state is State.ACTIVE or (unit.state is State.PREPARED and not guards.prepared_apart)
            decided = unit.state in (State.COMMITTED, State.BACKED_OUT)
            if not guards.undecided and decided and self.random.random() < 0.7:
                left = True
            if unit.life.member == of and older and left:
                unit.state = State.BACKED_OUT
                self.put_back(unit.life, name)
                return True
        return False

    def _is_left(self, held: Held) -> bool:
        """True if a recovery frees this, when all units are decided: locks, and what should not be."""
        return held.kind is Kind.LOCKED or (self.guards.stray and not self._is_in_doubt(held))

    def _is_stray(self, held: Held, of: str, claimed: int) -> bool:
        return held.life.member == of and held.life.epoch < claimed and not self._is_in_doubt(held)

    def _is_in_doubt(self, held: Held) -> bool:
        unit = self.units.get(held.unit)
        return self.guards.stray_apart and unit is not None and unit.state is State.PREPARED

    def end_recovery(self, by: Life, of: str, claimed: int) -> bool | None:
        """Say that the recovery of a peer is over."""
        if not self.passes(by):
            return None
        if self.guards.recoverer and (self.recoverers.get(of), self.epochs[of]) != (by.member, claimed):
            return None
        self.recoverers.pop(of, None)
        if any(self._is_stray(held, of, self.epochs[of]) for held in self.held.values()):
            raise WrongError("a recovery was said to be over that is not")
        return True

    # Claims

    def register(self, life: Life) -> int | None:
        """A driver goes on with a consumer: its generation."""
        if not self.passes(life):
            return None
        self.consumer.generation += 1
        return self.consumer.generation

    def _claims(self, generation: int) -> bool:
        return not self.guards.generation or generation == self.consumer.generation

    def claim(self, life: Life, generation: int) -> tuple[int, int] | None:
        """Claim the first message: its number, and its place."""
        if not self.passes(life) or not self._claims(generation) or not self.message:
            return None
        number, place = self.consumer.next, min(self.message)
        self.consumer.next += 1
        owner = NOBODY if self.guards.claims_apart else life
        self.held[place] = Held(Kind.CLAIMED, owner, 0, self.message.pop(place), number)
        return number, place

    def claimed(self) -> dict[int, int]:
        """Return the places of the claims that go on, by number."""
        return {held.number: place for place, held in self.held.items() if held.kind is Kind.CLAIMED}

    def acknowledge(self, life: Life, generation: int, number: int) -> bool | None:
        """The claims up to a number are consumed."""
        if not self.passes(life) or not self._claims(generation):
            return None
        for each, place in self.claimed().items():
            if each <= number:
                del self.held[place]
                self.depth -= 1
        self.consumer.acknowledged = max(self.consumer.acknowledged, number)
        return True

    def end_claims(self, life: Life, generation: int) -> bool | None:
        """Let all claims go that are not acknowledged; their numbers are free again."""
        if not self.passes(life) or not self._claims(generation):
            return None
        for owner in {self.held[place].life for place in self.claimed().values()}:
            self.put_back(owner, 0, kinds=(Kind.CLAIMED,))
        self.consumer.next = self.consumer.acknowledged + 1
        return True

    # What must hold in each snapshot

    def check(self) -> None:
        """Raise WrongError where something does not hold."""
        counted = len(self.message)
        for place, held in self.held.items():
            if place in self.message:
                raise WrongError("in two places")
            counted += held.kind is not Kind.GOT
            unit = self.units.get(held.unit)
            prepared = unit is not None and unit.life == held.life and unit.state is State.PREPARED
            if held.kind in (Kind.GOT, Kind.PUT) and not prepared and unit != Unit(held.life, State.ACTIVE):
                raise WrongError("held without an active unit of its life")
            if not prepared and held.life.epoch < self.recovered.get(held.life.member, 0):
                raise WrongError("held by a life whose recovery is over")
        for place, backouts in self.message.items():
            if backouts > self.gets[place]:
                raise WrongError("a backout was counted that was none")
        if self.depth != counted:
            raise WrongError("the depth is not the count")
