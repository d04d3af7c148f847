"""Definitions of users, records, channels and rules as commands would make them, and commands that are carried out."""

from __future__ import annotations

import re
from typing import Any

from broker.core.security.authority import Authority
from broker.core.security.facts import Check, Principal, Rule, RuleType, UserSource, record_key, rule_key
from broker.core.security.rights import TYPE_WORDS, Right

AUTH_INFO = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
HASH = "$scrypt$ln=15,r=8,p=1$c2FsdA$aGFzaA"

_ARGUMENT = re.compile(r"(\w+)\(((?:'(?:[^']|'')*'|[^()'])*)\)")


class Definitions:
    """The definitions of a queue manager, and its authority, which is told of each."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.made: dict[tuple[str, str], dict[str, Any]] = {}
        self._rules = 0

    def define(self, space: str, name: str, **attributes: Any) -> None:
        self.made[space, name] = attributes
        self.authority.define(space, name, attributes)

    def delete(self, space: str, name: str) -> None:
        del self.made[space, name]
        self.authority.delete(space, name)

    def user(self, name: str, *groups: str, password: bool = True, enabled: bool = True, **rest: Any) -> None:
        attributes = {"GROUPS": ",".join(groups), "STATUS": int(enabled), "PASSWORD": HASH if password else ""}
        self.define("USER", name, **attributes, **rest)

    def record(self, profile: str, entity: str, rights: Right, kind: str = "USER", object_type: int = 1) -> str:
        principal = Principal[kind]
        name = record_key(profile, object_type, principal, entity)
        self.define(
            "AUTHREC", name, PROFILE=profile, OBJTYPE=object_type, ENTTYPE=principal.value, ENTITY=entity,
            AUTHLIST=rights.value,
        )  # fmt: skip
        return name

    def channel(self, name: str, **attributes: Any) -> None:
        self.define("CHANNEL", name, **{"CHLTYPE": 7, **attributes})

    def auth_info(self, name: str = AUTH_INFO, **attributes: Any) -> None:
        self.define("AUTHINFO", name, **{"AUTHTYPE": 3, **attributes})

    def rule(self, profile: str, type: str, **attributes: Any) -> str:
        """A rule, younger than all before it; that of the same key is replaced, and keeps its age."""
        attributes = {"CHLAUTH": profile, "TYPE": RuleType[type].value, **attributes}
        name = rule_key(Rule.of(attributes))
        self._rules += 1
        before = self.made.get(("CHLAUTH", name), {"ORDER": self._rules})
        self.define("CHLAUTH", name, **attributes, ORDER=before["ORDER"])
        return name

    def defaults(self) -> None:
        """Return the definitions that a new queue manager has (security 2.5)."""
        self.auth_info(CHCKCLNT=Check.REQUIRED.value)
        for name in ("SYSTEM.DEF.SVRCONN", "SYSTEM.ADMIN.SVRCONN", "EVERMQ.SVRCONN"):
            self.channel(name)
        channel = UserSource.CHANNEL.value
        self.rule("*", "BLOCKUSER", USERLIST="*MQADMIN")
        self.rule("SYSTEM.*", "ADDRESSMAP", ADDRESS="*", USERSRC=UserSource.NOACCESS.value)
        self.rule("SYSTEM.ADMIN.SVRCONN", "ADDRESSMAP", ADDRESS="*", USERSRC=channel)
        self.rule("EVERMQ.SVRCONN", "BLOCKUSER", USERLIST="nobody")
        self.rule("EVERMQ.SVRCONN", "ADDRESSMAP", ADDRESS="*", USERSRC=channel, CHCKCLNT=Check.REQUIRED.value)

    def run(self, command: str) -> None:
        """Carry out a command of a grant; one that would do nothing fails."""
        plain = {word: _plain(value) for word, value in _ARGUMENT.findall(command)}
        if command.startswith("SET AUTHREC"):
            self._set_authrec(plain)
        elif command.startswith("SET CHLAUTH"):
            replaces = plain.pop("ACTION", "ADD") == "REPLACE"
            words = {"USERSRC": UserSource, "CHCKCLNT": Check}
            profile, type = plain.pop("CHLAUTH"), plain.pop("TYPE")
            warns = int(plain.pop("WARN", "NO") == "YES")
            given = {word: words[word][text].value if word in words else text for word, text in plain.items()}
            count = len(self.authority.rules)
            self.rule(profile, type, **given, WARN=warns)
            assert replaces == (len(self.authority.rules) == count)
        else:
            assert command == f"ALTER USER('{plain['USER']}') STATUS(ENABLED)"
            self.define("USER", plain["USER"], **{**self.made["USER", plain["USER"]], "STATUS": 1})

    def _set_authrec(self, given: dict[str, str]) -> None:
        object_type = next(number for number, word in TYPE_WORDS.items() if word == given["OBJTYPE"])
        profile = given.get("PROFILE", "self")
        added = Right.NONE
        for word in given["AUTHADD"].split(","):
            added |= Right[word]
        name = record_key(profile, object_type, Principal.USER, given["PRINCIPAL"])
        before = Right(self.made.get(("AUTHREC", name), {"AUTHLIST": 0})["AUTHLIST"])
        assert added & ~before, given
        self.record(profile, given["PRINCIPAL"], before | added, object_type=object_type)


def _plain(text: str) -> str:
    """An argument without quotation marks; a list with commas."""
    parts = re.findall(r"'((?:[^']|'')*)'", text)
    return ",".join(part.replace("''", "'") for part in parts) if parts else text
