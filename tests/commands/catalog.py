"""A queue manager as commands see it: definitions in a dictionary, and whatever status a test gives them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from broker.commands.decisions import decided
from broker.commands.interpreter import CommandOutcome, interpret
from broker.commands.language.script import commands_of
from broker.commands.requests import DECISIONS
from broker.commands.table.attributes import create
from broker.core.names.definitions import GROUP, GROUP_VERSION, OWN, SHARED, Clear, Define, Definition, Delete, Together
from broker.core.security.facts import User
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.commands.interpreter import ForEngine
    from broker.commands.requests import Decision
    from broker.core.names.definitions import Change

NOON = datetime(2026, 3, 4, 12, 30, 15)


class Manager:
    """Carries out commands as an engine does: interpret, apply the changes, show the reply."""

    def __init__(self) -> None:
        self.now = NOON
        self.queue_manager = create("QMGR", "QM1", NOON, QMID="QM1_2026-03-04_12.30.15")
        self.objects: dict[tuple[str, str], Definition] = {}
        self.group_name = "GRP1"
        self.of_group = {(GROUP, "CFSTRUCT", "APPL"): create("CFSTRUCT", "APPL", NOON)}  # disposition, space, name
        self.asked: list[ForEngine] = []
        self.live: dict[str, dict[str, int | str]] = {}
        self.changes: list[Change] = []
        self.decisions: list[Decision] = []
        self.holders: dict[str, str] = {}
        self.shown: dict[tuple[str, str], list[dict[str, int | str]]] = {}

    def find(self, space: str, name: str, place: int = OWN) -> Definition | None:
        if place in (SHARED, GROUP):
            return self.of_group.get((place, space, name))
        return self.objects.get((space, name))

    def names(self, space: str) -> list[str]:
        known = {*self.objects, *(key[1:] for key in self.of_group)}
        return sorted(name for owner, name in known if owner == space)

    @property
    def users(self) -> dict[str, User]:
        shared = {key[1:]: each for key, each in self.of_group.items() if key[0] == SHARED}
        users = ((name, each) for (space, name), each in {**self.objects, **shared}.items() if space == "USER")
        return {name: User.of(name, each.attributes) for name, each in users}

    def records(self, object_type: int, profile: str, place: int = OWN) -> dict[str, Definition]:
        about = {"OBJTYPE": object_type, "PROFILE": profile}
        shared = {key[1:]: each for key, each in self.of_group.items() if key[0] == SHARED}
        known = shared if place == SHARED else self.objects
        found = ((name, each) for (space, name), each in known.items() if space == "AUTHREC")
        return {name: each for name, each in found if about.items() <= each.attributes.items()}

    def status(self, definition: Definition) -> dict[str, int | str]:
        return self.live.get(definition.name, {}) if definition.space == "QUEUE" else {}

    def held(self, q_name: str) -> str:
        return self.holders.get(q_name, "")

    def statuses(self, noun: str, type: str) -> Iterator[dict[str, int | str] | None]:
        for values in self.shown.get((noun, type), []):
            yield None
            yield values

    def run(self, text: str) -> CommandReply:
        """Carry out one command and answer it."""
        outcome = interpret(text, self, self.now)
        if not isinstance(outcome, CommandOutcome):
            if not isinstance(outcome, DECISIONS):
                self.asked.append(outcome)
                return CommandReply(code="", text="")
            self.decisions.append(outcome)
            return decided(outcome, 100, 212)
        for change in outcome.changes:
            self._apply(change)
        return outcome.reply

    def script(self, text: str) -> list[str]:
        """Carry out a script; the codes of the replies."""
        return [self.run(command).code for command in commands_of(text)]

    def queue(self, name: str) -> dict[str, int | str]:
        return self.objects["QUEUE", name].attributes

    def process(self, name: str) -> dict[str, int | str]:
        return self.objects["PROCESS", name].attributes

    def _apply(self, change: Change) -> None:
        self.changes.append(change)
        match change:
            case Define(definition) if definition.kind == "QMGR":
                self.queue_manager = definition
            case Define(definition) if definition.kind == "CFSTRUCT" or definition.disposition in (SHARED, GROUP):
                place = SHARED if definition.shared else GROUP
                if place == GROUP:
                    definition.attributes[GROUP_VERSION] = len(self.changes)
                self.of_group[place, definition.space, definition.name] = definition
            case Delete(space, name, disposition) if disposition in (SHARED, GROUP):
                del self.of_group[disposition, space, name]
            case Define(definition):
                self.objects[definition.space, definition.name] = definition
            case Delete(space, name):
                del self.objects[space, name]
                for key in change.records:
                    del self.objects["AUTHREC", key]
            case Together(changes):
                for each in changes:
                    self._apply(each)
            case Clear(name):
                self.live[name] = {}
