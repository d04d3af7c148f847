"""The attributes of structures (CFSTRUCT), in the order in which DISPLAY prints them.

A structure is a set of shared queues that fail and are recovered together. There is nothing to size: the messages are
rows of a database.
"""

from __future__ import annotations

from typing import Final

from broker.commands.table.forms import Integer, Name, Text, WordChoice
from broker.commands.table.row import Acts, Attribute, Origin
from broker.mqi.constants.attributes import MQCA, MQIA

DEFAULT: Final = "APPL"
"""The structure of shared queues that name none. A new group has it, with RECOVER(YES)."""

STRUCTURE_NAME: Final = Name(12)
_YES_NO = WordChoice({"NO": 0, "YES": 1})

CFSTRUCT = (
    Attribute("CFSTRUCT", MQCA.CF_STRUC_NAME, STRUCTURE_NAME, origin=Origin.NAME),
    Attribute("ALTDATE", MQCA.ALTERATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", MQCA.ALTERATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("CFCONLOS", MQIA.CF_CFCONLOS, WordChoice({"TERMINATE": 0, "TOLERATE": 1, "ASQMGR": 2}), 2),
    Attribute("CFLEVEL", MQIA.CF_LEVEL, Integer(1, 5), 5, acts=Acts.NO, instead="all structures are of level 5"),
    Attribute("DESCR", MQCA.CF_STRUC_DESC, Text(64), acts=Acts.PROGRAMS),
    Attribute(
        "RECAUTO", MQIA.CF_RECAUTO, _YES_NO, 0, acts=Acts.NO, instead="a structure is recovered by RECOVER CFSTRUCT"
    ),
    Attribute("RECOVER", MQIA.CF_RECOVER, _YES_NO, 0),
)
