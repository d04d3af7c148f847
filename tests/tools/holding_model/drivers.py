"""Drivers: programs that claim messages as one consumer. One that another has taken over from does not know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.tools.holding_model.lives import Lost

if TYPE_CHECKING:
    from tests.tools.holding_model.lives import Member
    from tests.tools.holding_model.world import World


class Driver:
    """A driver, by way of any member. `claims` are the places of what it has claimed and read, by number."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.generation = 0
        self.claims: dict[int, int] = {}

    def step(self, member: Member) -> None:
        """Do something by way of a member."""
        if not self.generation:
            self._register(member)
            return
        drawn = self.world.random.random()
        if drawn < 0.5:
            self._claim(member)
        elif drawn < 0.9:
            self._acknowledge(member)
        else:
            self.generation = 0

    def _register(self, member: Member) -> None:
        """Go on where the last driver was: with its claims, or without them."""
        world, tables, life = self.world, self.world.tables, member.life

        def then(generation: int | Lost | None) -> None:
            if isinstance(generation, Lost) or generation is None:
                return
            self.generation = generation
            self.claims = tables.claimed()
            if world.random.random() < 0.4:
                self.claims = {}
                member.call(lambda: tables.end_claims(life, generation), self._unless_done)

        member.call(lambda: tables.register(life), then)

    def _unless_done(self, done: bool | Lost | None) -> None:
        """Whoever does not know what has become of a call registers again: then it never comes any more."""
        if done is not True:
            self.generation = 0

    def _claim(self, member: Member) -> None:
        tables, life, generation = self.world.tables, member.life, self.generation

        def then(claim: tuple[int, int] | Lost | None) -> None:
            if isinstance(claim, Lost):
                self.generation = 0
            elif claim is not None:
                number, place = claim
                self.claims[number] = place

        member.call(lambda: tables.claim(life, generation), then)

    def _acknowledge(self, member: Member) -> None:
        world, tables, life, generation = self.world, self.world.tables, member.life, self.generation
        if not self.claims:
            return
        number = world.random.choice(sorted(self.claims))
        done = {each: place for each, place in self.claims.items() if each <= number}
        self.claims = {each: place for each, place in self.claims.items() if each > number}

        def then(acknowledged: bool | Lost | None) -> None:
            self._unless_done(acknowledged)
            if acknowledged is True:
                for place in done.values():
                    world.consume(place)
            elif isinstance(acknowledged, Lost):
                for place in done.values():
                    world.may_be_gone(place)

        member.call(lambda: tables.acknowledge(life, generation, number), then)
