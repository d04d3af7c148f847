"""A world of the model: three members, two drivers, and what goes wrong, drawn from a seed."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.tools.holding_model.drivers import Driver
from tests.tools.holding_model.guards import Guards
from tests.tools.holding_model.lives import Member
from tests.tools.holding_model.tables import MEMBERS, Life, State, Tables, WrongError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.tools.holding_model.lives import Work

MESSAGES_FIRST = 4
STEPS_OF_RECOVERY_MAX = 500


class Recovery(NamedTuple):
    """A recovery that somebody has begun, and may go on with long after it was taken from them."""

    by: Member
    by_life: Life
    of: str
    claimed: int


class World:
    """A group and its programs. `truth` is what must be so of each message in the end: "there", "gone", "never" there,
    or "either"; `doubts` are units that are decided elsewhere, `decisions` those that are decided; `late` are
    statements on their way; `weights` say which steps are frequent in this world. Where it does not `look`, only what
    is there in the end is judged.
    """

    def __init__(self, seed: int, guards: Guards, *, look: bool = True) -> None:
        self.random = Random(seed)
        self.guards = guards
        self.looks = look
        self.tables = Tables(guards, self.random)
        self.truth: dict[int, str] = {}
        self.doubts: dict[int, Work] = {}
        self.decisions: dict[int, State] = {}
        self.weights: defaultdict[str, float] = defaultdict(lambda: self.random.choice((0.2, 1.0, 4.0)))
        self.late: list[Callable[[], object]] = []
        self._names = 0
        self._by_hand: set[int] = set()
        self._states: dict[int, State] = {}
        self._members = {name: Member(self, name) for name in MEMBERS}
        self._drivers = [Driver(self), Driver(self)]
        self._recoveries: list[Recovery] = []
        for _ in range(MESSAGES_FIRST):
            place = self.new_place()
            self.truth[place] = "there"
            self.tables.message[place] = 0
            self.tables.depth += 1

    # What programs know

    def new_name(self) -> int:
        """Return the name of a unit or a handle."""
        self._names += 1
        return self._names

    def new_place(self) -> int:
        place = len(self.truth) + 1
        self.truth[place] = "either"
        return place

    def consume(self, place: int) -> None:
        """A program has a message for good."""
        if self.truth[place] == "gone":
            raise WrongError("doubled")
        if self.truth[place] == "never":
            raise WrongError("got from a unit that was backed out")
        self.truth[place] = "gone"

    def may_be_gone(self, place: int) -> None:
        """A program does not know whether it has a message for good."""
        if self.truth[place] == "there":
            self.truth[place] = "either"

    def ended(self, got: list[int], put: list[int], state: State | None) -> None:
        """A unit has ended; None: nobody knows how."""
        for place in got:
            if state is State.COMMITTED:
                self.consume(place)
            elif state is None:
                self.may_be_gone(place)
        for place in put:
            if state is State.BACKED_OUT:
                self.truth[place] = "never"
            elif state is State.COMMITTED and self.truth[place] == "either":
                self.truth[place] = "there"

    def decide(self, unit: int, state: State) -> None:
        """A unit in doubt is decided elsewhere."""
        self.decisions[unit] = state
        work = self.doubts[unit]
        self.ended(work.got, work.put, None if unit in self._by_hand else state)

    def decided_by_hand(self, unit: int) -> None:
        """An operator decides a unit in doubt, perhaps otherwise: nobody may rely on it any more."""
        self._by_hand.add(unit)
        work = self.doubts[unit]
        for place in [*work.got, *work.put]:
            if self.truth[place] != "gone" or place in work.got:
                self.truth[place] = "either"

    # What happens

    def run(self) -> None:
        """Run a schedule, and what must follow. Raises WrongError."""
        for _ in range(self.random.randint(20, 120)):
            self._turn()
            self._check()
        self._end()
        self._check()
        self._judge()

    def _turn(self) -> None:
        drawn, member = self.random.random(), self._members[self.random.choice(MEMBERS)]
        if self.late and drawn < 0.15:
            self.late.pop(self.random.randrange(len(self.late)))()
        elif self.tables.open and drawn < 0.18:
            get = self.random.choice(self.tables.open)
            (self.tables.commit if get.sent and self.random.random() < 0.5 else self.tables.abort)(get)
        elif member.is_up and drawn < 0.2:
            member.die()
        elif drawn < 0.24:
            self._begin_life(member)
        elif drawn < 0.29:
            self._take_over(member)
        elif self._recoveries and drawn < 0.42:
            self._recover(self.random.choice(self._recoveries))
        elif member.is_up and drawn < 0.46:
            member.resolve()
        elif member.is_up and drawn < 0.55:
            self.random.choice(self._drivers).step(member)
        elif member.is_up:
            member.step()

    def _begin_life(self, member: Member) -> None:
        """A member starts, also one that goes on and was only thought dead: what is pending there is made then."""
        for work in [*member.units.values(), *(each.work for each in member.mixed.values() if not each.ended)]:
            for place in work.got:
                self.may_be_gone(place)
        if not member.is_up:
            member.pending.clear()
        member.is_up = True
        member.begin(self.tables.begin_life(member.name))
        self._recoveries.append(Recovery(member, member.life, member.name, member.life.epoch))
        member.resolve_private()

    def _take_over(self, member: Member) -> None:
        of = self.random.choice(MEMBERS)
        if of != member.name and member.is_up:
            claimed = self.tables.take_over(member.life, of, self.tables.epochs[of])
            if claimed is not None:
                self._recoveries.append(Recovery(member, member.life, of, claimed))

    def _recover(self, recovery: Recovery) -> None:
        by, by_life, of, claimed = recovery
        if not by.is_up:
            return
        done = self.tables.recover(by_life, of, claimed)
        if (done == "done" and by.name != of) or not self.guards.recoverer:
            self.tables.end_recovery(by_life, of, claimed)

    def _end(self) -> None:
        """What is late comes, all die, one recovers all, and what was decided elsewhere is carried out."""
        tables = self.tables
        for _ in range(2):
            while self.late:
                self.late.pop(self.random.randrange(len(self.late)))()
            for get in list(tables.open):
                tables.abort(get)
            for name in MEMBERS:
                self._begin_life(self._members[name])
            last = self._members[MEMBERS[-1]].life
            for name in MEMBERS:
                if name != last.member:
                    tables.epochs[name] += 1
                    tables.recoverers[name] = last.member
            for name in MEMBERS:
                self._recover_all(last, name)
            for unit in self.doubts:
                if unit not in self.decisions:
                    self.decide(unit, State.BACKED_OUT)
                tables.decide(last, unit, self.decisions[unit])
            generation = tables.register(last)
            assert generation is not None
            tables.end_claims(last, generation)
        for name in MEMBERS:
            member = self._members[name]
            member.begin(tables.begin_life(name))
            if not member.resolve_private():
                raise WrongError("a private half stays in doubt")

    def _recover_all(self, by: Life, of: str) -> None:
        for _ in range(STEPS_OF_RECOVERY_MAX):
            done = self.tables.recover(by, of, self.tables.epochs[of])
            if done == "stuck":
                raise WrongError("a recovery makes no progress")
            if done != "more":
                return
        raise WrongError("a recovery without end")

    # What must be

    def _check(self) -> None:
        """What must hold in each snapshot, and from one to the next."""
        for name, unit in self.tables.units.items():
            before = self._states.setdefault(name, unit.state)
            if self.looks and before is not unit.state and before not in (State.ACTIVE, State.PREPARED):
                raise WrongError("a decision was changed")
            self._states[name] = unit.state
        if not self.looks:
            return
        self.tables.check()
        for member in self._members.values():
            if member.is_up and self.tables.passes(member.life):
                self._check_locks(member)

    def _check_locks(self, member: Member) -> None:
        for handle, place in member.locks.items():
            held = self.tables.held.get(place)
            if held is None or (held.life, held.unit) != (member.life, handle):
                raise WrongError("a lock was taken away from its handle")

    def _judge(self) -> None:
        """In the end nothing is held, and each message is where it must be."""
        tables = self.tables
        if tables.held:
            raise WrongError("stranded")
        for place, must in self.truth.items():
            there = place in tables.message
            if must == "there" and not there:
                raise WrongError("lost")
            if must == "gone" and there:
                raise WrongError("comes again")
            if must == "never" and there:
                raise WrongError("there though backed out")
        for member in self._members.values():
            for unit in member.halved:
                shared, private = self._states.get(unit), member.private.get(unit)
                if (shared is State.COMMITTED) != (private is State.COMMITTED):
                    raise WrongError("a mixed unit is torn")


class Found(NamedTuple):
    """The schedule in which something has gone wrong, and what."""

    seed: int
    what: str


def explore(guards: Guards, first: int, last: int) -> Found | None:
    """Run the schedules of these seeds, until something goes wrong."""
    for seed in range(first, last):
        if (what := _wrong(seed, guards)) is not None:
            return Found(seed, what)
    return None


def explore_behind(name: str, before: str, first: int, last: int) -> Found | None:
    """Find a schedule in which a guard keeps harm away, where the one `before` it is out."""
    for seed in range(first, last):
        for look in (True, False):
            if _wrong(seed, Guards().without(before), look=look) is None:
                what = _wrong(seed, Guards().without(before, name), look=look)
                if what is not None:
                    return Found(seed, what)
    return None


def _wrong(seed: int, guards: Guards, *, look: bool = True) -> str | None:
    try:
        World(seed, guards, look=look).run()
    except WrongError as error:
        return str(error)
    return None
