"""One row of the attribute table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.commands.forms import Form, Value
    from broker.mqi.attributes import MQCA, MQIA


class Origin(Enum):
    """Where the value of an attribute comes from."""

    GIVEN = "given"  # DEFINE and ALTER give it; kept in the definition
    KEPT = "kept"  # the queue manager gives it; kept in the definition
    NAME = "name"  # the object's name
    KIND = "kind"  # follows from the object's kind
    LIVE = "live"  # counted while the queue manager runs


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of one kind of object: its MQSC keyword, its MQI selector and the form of its values.

    `settable`: MQSET may change it. `quiet`: DISPLAY ALL prints it only when it differs from its default; these are the
    attributes that the recorded layouts of runmqsc lack.
    """

    keyword: str
    selector: MQIA | MQCA
    form: Form
    default: Value = ""
    origin: Origin = Origin.GIVEN
    settable: bool = False
    quiet: bool = False
