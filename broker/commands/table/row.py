"""One row of the attribute table."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.commands.table.forms import Value, ValueForm
    from broker.mqi.constants.attributes import MQCA, MQIA


class Origin(Enum):
    """The origin of the value of an attribute."""

    GIVEN = "given"  # DEFINE and ALTER give it; kept in the definition
    KEPT = "kept"  # the queue manager gives it; kept in the definition
    NAME = "name"  # the object's name
    KIND = "kind"  # follows from the object's kind
    LIVE = "live"  # counted while the queue manager runs


class Acts(Enum):
    """The effect of an attribute's value, beyond its being kept and shown."""

    YES = "yes"  # what IBM MQ does
    PROGRAMS = "for programs"  # nothing, as on IBM MQ: programs and administrators read it
    NO = "no"  # nothing, where IBM MQ does something


ASKS_FOR_NOTHING = ("OFF", "NONE", "NO", "DISABLED", "MANUAL", "")
"""Values with which an attribute switches something off: what is not done cannot be missed then."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of one kind of object: its MQSC keyword, its MQI selector and the form of its values.

    `settable`: MQSET may change it. `quiet`: DISPLAY ALL prints it only when it differs from its default; these are the
    attributes that the recorded layouts of runmqsc lack. `acts` tells what setting it leads to, `instead` what happens
    where nothing is done, `ignored` which values of one that acts lead to nothing.

    Of kinds of objects that have types (`broker.commands.table.kinds`), `types` are those that have the attribute, all
    if there are none, and `defaults` its default where it is another for some. LIKE does not
    copy what is an object's `own`, such as its password.
    """

    keyword: str
    selector: MQIA | MQCA | None  # None where no program can open such an object
    form: ValueForm
    default: Value = ""
    origin: Origin = Origin.GIVEN
    settable: bool = False
    quiet: bool = False
    acts: Acts = Acts.YES
    instead: str = ""
    ignored: tuple[Value, ...] = ()
    types: tuple[int, ...] = ()
    defaults: Mapping[int, Value] = field(default_factory=dict)
    own: bool = False

    def default_of(self, type: int) -> Value:
        """The default for an object of this type."""
        return self.defaults.get(type, self.default)

    def is_of(self, type: int) -> bool:
        """True if objects of this type have the attribute."""
        return not self.types or type in self.types

    def ignores(self, value: Value) -> bool:
        """True if this value asks for something that is not done. A default never does."""
        if self.acts is not Acts.NO:
            return value in self.ignored
        return (
            value != self.default
            and value not in self.defaults.values()
            and self.form.plain(value) not in ASKS_FOR_NOTHING
        )
