"""The names that values print with, and how flags and characters behave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi.constants.attributes import MQCA, MQIA
from broker.mqi.constants.connections import MQCNO
from broker.mqi.constants.descriptor import (
    MQAT,
    MQCCSI,
    MQENC,
    MQFB,
    MQFMT,
    MQGS,
    MQMF,
    MQMT,
    MQPER,
    MQPRI,
    MQRO,
    MQSEG,
    MQSS,
)
from broker.mqi.constants.objects import MQOT, MQQT
from broker.mqi.constants.options import MQCO, MQGMO, MQMO, MQOO, MQPMO
from broker.mqi.reasons import MQCC, MQRC

if TYPE_CHECKING:
    from enum import Enum


@pytest.mark.parametrize(
    ("member", "name"),
    [
        (MQCC(2), "FAILED"),
        (MQRC(0), "NONE"),
        (MQRC(2053), "Q_FULL"),
        (MQRC(2120), "CONVERTED_MSG_TOO_BIG"),
        (MQRC(2192), "STORAGE_MEDIUM_FULL"),
        (MQOO(0), "BIND_AS_Q_DEF"),
        (MQOO(262144), "RESOLVE_LOCAL_Q"),
        (MQCO(0), "NONE"),
        (MQGMO(0), "NONE"),
        (MQGMO(1), "WAIT"),
        (MQGMO(17825808), "BROWSE_HANDLE"),
        (MQMO(0), "NONE"),
        (MQPMO(0), "NONE"),
        (MQCNO(0), "NONE"),
        (MQMT(8), "DATAGRAM"),
        (MQPER(2), "PERSISTENCE_AS_Q_DEF"),
        (MQPRI(-1), "PRIORITY_AS_Q_DEF"),
        (MQRO(0), "NONE"),
        (MQRO(0x300), "COA_WITH_DATA"),
        (MQMF(0), "NONE"),
        (MQFB(265), "APPL_CANNOT_BE_STARTED"),
        (MQFMT("MQHRF"), "RF_HEADER"),
        (MQENC(546), "REVERSED"),
        (MQCCSI(0), "Q_MGR"),
        (MQAT(2), "ZOS"),
        (MQAT(6), "UNIX"),
        (MQAT(13), "NSK"),
        (MQAT(26), "BROKER"),
        (MQOT(1), "Q"),
        (MQQT(1), "LOCAL"),
        (MQIA(3), "CURRENT_Q_DEPTH"),
        (MQCA(2002), "BASE_Q_NAME"),
    ],
)
def test_a_value_prints_with_one_name(member: Enum, name: str) -> None:
    assert member.name == name
    assert repr(member) == f"<{type(member).__name__}.{name}: {member.value!r}>"


def test_flags_join_and_part() -> None:
    options = MQGMO.WAIT | MQGMO.SYNCPOINT
    assert options == 3
    assert MQGMO.WAIT in options
    assert MQGMO.LOCK not in options
    assert options.name == "WAIT|SYNCPOINT"


@pytest.mark.parametrize("family", [MQOO, MQGMO, MQPMO, MQMF, MQRO])
def test_bits_that_mq_does_not_define_pass_through(family: type[MQGMO]) -> None:
    assert int(family(0x4000_0000) | family(1)) == 0x4000_0001


def test_composite_browse_options_are_their_parts() -> None:
    assert MQGMO.BROWSE_HANDLE == MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG | MQGMO.MARK_BROWSE_HANDLE
    assert MQGMO.BROWSE_CO_OP == MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG | MQGMO.MARK_BROWSE_CO_OP


def test_formats_are_strings_without_padding() -> None:
    assert (MQFMT.STRING, MQFMT.NONE) == ("MQSTR", "")
    assert f"{MQFMT.TRIGGER}" == "MQTRIG"


def test_status_characters_keep_their_one_character() -> None:
    assert (MQGS.NOT_IN_GROUP, MQSS.NOT_A_SEGMENT, MQSEG.INHIBITED) == (" ", " ", " ")
    assert (MQGS.LAST_MSG_IN_GROUP, MQSS.SEGMENT, MQSEG.ALLOWED) == ("L", "S", "A")
