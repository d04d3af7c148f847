"""Places for lines that have no user yet: how many there may be, whose turn it is, and who has to go.

Pure: time is given, and what is to happen with the sockets is returned (`PlaceChanges`).

1. A line that nobody has logged in on holds a *place*. There are `[limits] logins` in all, `logins_per_address` for an
   address. For one more, the oldest of its address is closed, or of the address with most.
2. An address is *trusted* when it is of this machine, or somebody has logged in from it within 10 minutes and has not
   failed more often than succeeded. It has twenty times its places and handshakes. Its lines wait their turn, address
   by address, and are never closed for others: together they leave as many places as one address has to the others.
   It takes no more places than it leaves free, so one that has none finds one at once.
3. A line with TLS shakes hands first: `handshakes` of an address at a time, `handshake_rate` a second after twice as
   many at once. A line beyond that rate is closed. All addresses together have eight times that rate: handshakes
   beyond it begin in turns, address by address (`due`, `delay`). So nobody waits for those who came before in greater
   numbers, and lines that are there have their turns in between.
4. An address of IPv6 is its first 64 bits. It has at most `lines_per_address` lines, with places or without.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.config import LimitsConfig

TRUSTED_TIMES: Final = 20
TRUST_SECONDS: Final = 600.0
BURST_SECONDS: Final = 2.0
ALL_TIMES: Final = 8
ALL_AT_ONCE: Final = 4
"""The most handshakes that begin together: a step of each takes some half a millisecond of the event loop."""

ORIGINS_MAX: Final = 10_000
_LOOKED_AT: Final = 16
_ROUNDING: Final = 1e-6


class Stage(Enum):
    """The stage of a line before its login."""

    WAITING = "waiting for a place"
    QUEUED = "waiting to shake hands"
    HANDSHAKE = "shaking hands"
    LOGIN = "logging in"
    OVER = "logged in, or gone"


class Bucket:
    """A bucket that fills at a rate: how often something may happen. It is full at first."""

    __slots__ = ("_filled_at", "_level")

    def __init__(self, now: float) -> None:
        self._level = inf
        self._filled_at = now

    def level(self, rate: float, most: float, now: float) -> float:
        """Return how often it may happen at once, `most` where it has not happened for long."""
        self._level = min(self._level + (now - self._filled_at) * rate, most)
        self._filled_at = now
        return self._level

    def take(self) -> None:
        """It happens once."""
        self._level -= 1


class LineOrigin:
    """An address, with its lines."""

    def __init__(self, address: str, now: float, *, local: bool) -> None:
        self.address = address
        self.lines = 0
        self.strangers: dict[Place, None] = {}  # with a place, the oldest first, as in those below
        self.waiting: dict[Place, None] = {}
        self.queued: dict[Place, None] = {}
        self.trusted_places = 0
        self.handshakes = 0
        self.bucket = Bucket(now)
        self._local = local
        self._successes = self._failures = 0
        self._succeeded_at = self._tried_at = -inf

    def trusted(self, now: float) -> bool:
        """True if lines that come from it now are trusted."""
        lately = now - self._succeeded_at < TRUST_SECONDS
        return self._local or (lately and self._failures <= self._successes)

    def tried(self, now: float, *, succeeded: bool) -> None:
        """Somebody has tried to log in from it."""
        if now - self._tried_at >= TRUST_SECONDS:
            self._successes = self._failures = 0
        self._tried_at = now
        if succeeded:
            self._successes += 1
            self._succeeded_at = now
        else:
            self._failures += 1


class Place:
    """A line as its places see it."""

    __slots__ = ("origin", "stage", "tls", "trusted")

    def __init__(self, origin: LineOrigin, *, tls: bool, trusted: bool) -> None:
        self.origin = origin
        self.tls = tls
        self.trusted = trusted
        self.stage = Stage.WAITING


class PlaceChanges:
    """The lines without TLS that begin their login, and those that are closed: whoever asks does that."""

    def __init__(self) -> None:
        self.begun: list[Place] = []
        self.closed: list[Place] = []


def origin_of(address: str) -> str:
    """Return what counts as one address."""
    if address and isinstance(ip_address(address), IPv6Address):
        return str(ip_network(f"{address}/64", strict=False))
    return address


class Places:
    """The places of a listener."""

    def __init__(self, limits: LimitsConfig, now: float) -> None:
        self.limit(limits)
        self._origins: dict[str, LineOrigin] = {}
        self._turns: dict[LineOrigin, None] = {}  # addresses with lines that wait for a place: whose turn is next first
        self._strange: dict[LineOrigin, None] = {}  # addresses with strangers
        self._queues: dict[LineOrigin, None] = {}  # addresses with lines that wait to shake hands, as `_turns`
        self._trusted = self._strangers = 0
        self._all = Bucket(now)

    def limit(self, limits: LimitsConfig) -> None:
        """Let so many come from now on. Those who have come keep their places."""
        self._limits = limits
        self._rate = float(limits.handshake_rate)
        self._trusted_max = max(limits.logins - limits.logins_per_address, 1)

    @property
    def taken(self) -> int:
        """The number of places taken."""
        return self._trusted + self._strangers

    def due(self, now: float) -> list[Place]:
        """Begin the handshakes that are due, of an address after the other, and return their lines. It is asked after
        each change, and after `delay`.
        """
        begun: list[Place] = []
        full: list[LineOrigin] = []
        least = 1 - _ROUNDING  # after `delay` there is one, or what rounding has left of it
        while self._queues and self._level(now) >= least:
            origin = next(iter(self._queues))
            del self._queues[origin]
            if not origin.queued:
                continue
            place = next(iter(origin.queued))
            if origin.handshakes >= self._limits.handshakes * (TRUSTED_TIMES if place.trusted else 1):
                full.append(origin)
                continue
            del origin.queued[place]
            origin.handshakes += 1
            place.stage = Stage.HANDSHAKE
            begun.append(place)
            self._all.take()
            if origin.queued:
                self._queues[origin] = None
        self._queues.update(dict.fromkeys(full))
        return begun

    def delay(self, now: float) -> float:
        """Return in how many seconds a handshake is due that waits for the rate; 0 where none does."""
        missing = 1 - self._level(now) if self._queues else 0.0
        return missing / (self._rate * ALL_TIMES) if missing > _ROUNDING else 0.0

    def _level(self, now: float) -> float:
        """Return how many handshakes may begin at once."""
        return self._all.level(self._rate * ALL_TIMES, ALL_AT_ONCE, now)

    def arrive(self, address: str, now: float, *, tls: bool, local: bool) -> tuple[Place | None, PlaceChanges]:
        """A line has come. None for its place: it has to be closed."""
        changes = PlaceChanges()
        origin = self._origin(origin_of(address), now, local=local)
        trusted = origin.trusted(now)
        if origin.lines >= self._limits.lines_per_address:
            return None, changes
        if tls:
            rate = self._rate * (TRUSTED_TIMES if trusted else 1)
            if origin.bucket.level(rate, rate * BURST_SECONDS, now) < 1:
                return None, changes
            origin.bucket.take()
        origin.lines += 1
        place = Place(origin, tls=tls, trusted=trusted)
        if trusted:
            origin.waiting[place] = None
            self._turns.setdefault(origin)
            self._next_turns(changes)
        else:
            if len(origin.strangers) >= self._limits.logins_per_address:
                self._evict(origin, changes)
            elif self.taken >= self._limits.logins:
                self._evict_of_most(changes)
            self._seat(place, changes)
        return place, changes

    def shaken(self, place: Place) -> None:
        """Its handshake is over, the login begins."""
        if place.stage is Stage.HANDSHAKE:
            place.stage = Stage.LOGIN
            place.origin.handshakes -= 1

    def logged_in(self, place: Place, now: float) -> PlaceChanges:
        """Somebody has logged in: the line holds no place any more."""
        place.origin.tried(now, succeeded=True)
        return self._leave(place)

    def passed(self, place: Place) -> PlaceChanges:
        """The line needs no place any more, though nobody has logged in on it."""
        return self._leave(place)

    def failed(self, place: Place, now: float) -> None:
        """Somebody has failed to log in."""
        place.origin.tried(now, succeeded=False)

    def gone(self, place: Place) -> PlaceChanges:
        """The line has ended, in whichever stage."""
        place.origin.lines -= 1
        return self._leave(place)

    # Seats

    def _seat(self, place: Place, changes: PlaceChanges) -> None:
        origin = place.origin
        if place.trusted:
            origin.trusted_places += 1
            self._trusted += 1
        else:
            origin.strangers[place] = self._strange[origin] = None
            self._strangers += 1
        if place.tls:
            place.stage = Stage.QUEUED
            origin.queued[place] = None
            self._queues.setdefault(origin)
        else:
            place.stage = Stage.LOGIN
            changes.begun.append(place)

    def _next_turns(self, changes: PlaceChanges) -> None:
        """Give places to those that wait, an address after the other."""
        full: list[LineOrigin] = []
        while self._turns and self._trusted < self._trusted_max:
            origin = next(iter(self._turns))
            del self._turns[origin]
            free = self._trusted_max - self._trusted
            if origin.trusted_places >= min(self._limits.logins_per_address * TRUSTED_TIMES, free):
                full.append(origin)
                continue
            place = next(iter(origin.waiting))
            del origin.waiting[place]
            if origin.waiting:
                self._turns[origin] = None
            if self.taken >= self._limits.logins:
                self._evict_of_most(changes)
            self._seat(place, changes)
        self._turns.update(dict.fromkeys(full))

    def _evict_of_most(self, changes: PlaceChanges) -> None:
        """Close the oldest stranger of the address that has most of them, if there is one."""
        if self._strange:
            self._evict(max(self._strange, key=lambda origin: len(origin.strangers)), changes)

    def _evict(self, origin: LineOrigin, changes: PlaceChanges) -> None:
        place = next(iter(origin.strangers))
        changes.closed.append(place)
        self._release(place)

    def _leave(self, place: Place) -> PlaceChanges:
        changes = PlaceChanges()
        self._release(place)
        self._next_turns(changes)
        return changes

    def _release(self, place: Place) -> None:
        origin, stage, place.stage = place.origin, place.stage, Stage.OVER
        if stage is Stage.WAITING:
            del origin.waiting[place]
            if not origin.waiting:
                self._turns.pop(origin, None)
        elif stage is not Stage.OVER:
            self._stand_up(place)
            origin.queued.pop(place, None)
            if stage is Stage.HANDSHAKE:
                origin.handshakes -= 1

    def _stand_up(self, place: Place) -> None:
        origin = place.origin
        if place.trusted:
            origin.trusted_places -= 1
            self._trusted -= 1
            return
        del origin.strangers[place]
        self._strangers -= 1
        if not origin.strangers:
            del self._strange[origin]

    # Addresses

    def _origin(self, name: str, now: float, *, local: bool) -> LineOrigin:
        """Return an address. Of too many, one that has no lines and is not trusted is forgotten."""
        origin = self._origins.pop(name, None)
        if origin is None:
            origin = LineOrigin(name, now, local=local)
            if len(self._origins) >= ORIGINS_MAX:
                for each in list(islice(self._origins.values(), _LOOKED_AT)):
                    if not each.lines and not each.trusted(now):
                        del self._origins[each.address]
        self._origins[name] = origin
        return origin
