"""The attributes of authority records (AUTHREC), in the order in which DISPLAY prints them (security 6).

A record is kept under a key (`broker.core.security.facts.record_key`); SET AUTHREC gives all of its attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.commands import errors
from broker.commands.table.forms import Pattern, WordChoice
from broker.commands.table.queues import QSGDISP_OF_SECURITY
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.users import EntityName
from broker.core.security import profiles
from broker.core.security.facts import Principal
from broker.core.security.rights import ALL_ADMINISTRATION, ALL_MQI, TYPE_WORDS, Right, all_of
from broker.mqi.constants.objects import MQOT

if TYPE_CHECKING:
    from broker.commands.table.forms import Value

OBJECT_TYPES: Final = {word: number for number, word in TYPE_WORDS.items()}
"""The words of OBJTYPE."""

CLASS_WORDS: Final = {
    MQOT.AUTH_INFO.value: "@authinfo",
    MQOT.CHANNEL.value: "@channel",
    MQOT.CLNTCONN_CHANNEL.value: "@clntconn",
    MQOT.COMM_INFO.value: "@comminfo",
    MQOT.LISTENER.value: "@listener",
    MQOT.NAMELIST.value: "@namelist",
    MQOT.PROCESS.value: "@process",
    MQOT.Q.value: "@queue",
    MQOT.SERVICE.value: "@service",
    MQOT.TOPIC.value: "@topic",
}
"""Other words for the profile @class, of those who may create objects of a type."""

ENTITY_TYPES: Final = {"PRINCIPAL": Principal.USER.value, "GROUP": Principal.GROUP.value}

NOT_JUDGED: Final = ("COMMINFO", "LISTENER", "NAMELIST", "RQMNAME", "SERVICE", "TOPIC")
"""Types of which this queue manager has no objects: their records are kept and shown."""

TYPE_OF_SPACE: Final = {
    "QUEUE": MQOT.Q.value,
    "PROCESS": MQOT.PROCESS.value,
    "AUTHINFO": MQOT.AUTH_INFO.value,
    "CHANNEL": MQOT.CHANNEL.value,
    "CLNTCONN": MQOT.CLNTCONN_CHANNEL.value,
}
"""The type of the objects of a name space, of those whose records have the names of objects."""


@dataclass(frozen=True, slots=True)
class RightSet:
    """The rights of an authority record, in words with commas between them; NONE is no right."""

    def read(self, keyword: str, text: str) -> int:
        """The rights that the words name."""
        rights = Right.NONE
        for word in text.upper().split(","):
            if word not in RIGHT_WORDS:
                raise errors.bad_value(keyword, word, self.syntax)
            rights |= RIGHT_WORDS[word]
        return int(rights)

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) when these are no rights."""
        if not self.accepts(value):
            raise errors.bad_value(keyword, str(value), self.syntax)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return isinstance(value, int) and 0 <= value <= sum(RIGHT_WORDS.values())

    def plain(self, value: Value) -> Value:
        """The words, in IBM MQ's order."""
        return ",".join(word for word, right in RIGHT_WORDS.items() if right and int(value) & right) or "NONE"

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return " | ".join(RIGHT_WORDS)


RIGHT_WORDS = {
    word: Right[word]
    for word in (
        "ALTUSR", "BROWSE", "CHG", "CLR", "CONNECT", "CRT", "CTRL", "CTRLX", "DLT", "DSP", "GET", "INQ", "PUT",
        "PASSALL", "PASSID", "PUB", "RESUME", "SET", "SETALL", "SETID", "SUB", "SYSTEM", "NONE",
    )
}  # fmt: skip
"""The words for rights, in the order in which records are shown."""


_WORDS_FOR_SEVERAL: Final = ("ALL", "ALLADM", "ALLMQI")


@dataclass(frozen=True, slots=True)
class RightWord:
    """A word of AUTHADD and AUTHRMV: a right, several, or NONE."""

    def read(self, keyword: str, text: str) -> str:
        """The word in upper case."""
        return text.upper()

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) when there is no such word."""
        if not self.accepts(value):
            raise errors.bad_value(keyword, str(value), self.syntax)

    def accepts(self, value: Value) -> bool:
        """True if there is such a word."""
        return value in RIGHT_WORDS or value in ("", *_WORDS_FOR_SEVERAL)

    def plain(self, value: Value) -> Value:
        """The word itself."""
        return value

    @property
    def syntax(self) -> str:
        """The words in one line."""
        return " | ".join((*_WORDS_FOR_SEVERAL, *RIGHT_WORDS))


def rights_of(word: str, object_type: int) -> Right:
    """The rights that a word means for a type of object. A right that the type does not have is none of ALL's."""
    nothing = Right.NONE
    match word:
        case "ALL":
            return all_of(object_type)
        case "ALLADM":
            return ALL_ADMINISTRATION.get(object_type, nothing)
        case "ALLMQI":
            return ALL_MQI.get(object_type, nothing)
        case _:
            return RIGHT_WORDS[word]


PROFILE: Final = Pattern(48, profiles.check, "the name of an object, with ? * ** as wildcards")

AUTHREC = (
    Attribute("PROFILE", None, PROFILE, origin=Origin.KEPT),
    Attribute("ENTITY", None, EntityName(), origin=Origin.KEPT),
    Attribute("ENTTYPE", None, WordChoice(ENTITY_TYPES), Principal.USER.value, origin=Origin.KEPT),
    Attribute("OBJTYPE", None, WordChoice(OBJECT_TYPES), MQOT.Q.value, origin=Origin.KEPT),
    Attribute("AUTHLIST", None, RightSet(), 0, origin=Origin.KEPT),
    QSGDISP_OF_SECURITY,
)
