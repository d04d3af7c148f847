"""Name resolution: table 9.4, row by row."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from broker.commands.table.attributes import create
from broker.core.names.resolution import Resolution, resolve
from broker.mqi import MQRC, MQUS
from tests.core.world import fails

NOW = datetime(2026, 3, 4, tzinfo=UTC)
XMITQ = {"USAGE": MQUS.TRANSMISSION.value}
TOPIC = {"TARGTYPE": 8}

OBJECTS = [
    create("QLOCAL", "Q", NOW),
    create("QLOCAL", "X", NOW, **XMITQ),
    create("QLOCAL", "QM2", NOW, **XMITQ),
    create("QMODEL", "MODEL", NOW),
    create("QALIAS", "ALIAS", NOW, TARGET="Q"),
    create("QALIAS", "ALIAS.MISSING", NOW, TARGET="NOSUCH"),
    create("QALIAS", "ALIAS.BLANK", NOW),
    create("QALIAS", "ALIAS.ALIAS", NOW, TARGET="ALIAS"),
    create("QALIAS", "ALIAS.MODEL", NOW, TARGET="MODEL"),
    create("QALIAS", "ALIAS.TOPIC", NOW, TARGET="Q", **TOPIC),
    create("QALIAS", "ALIAS.REMOTE", NOW, TARGET="REMOTE"),
    create("QALIAS", "ALIAS.QMA", NOW, TARGET="QMA"),
    create("QREMOTE", "REMOTE", NOW, RNAME="R", RQMNAME="QM9", XMITQ="X"),
    create("QREMOTE", "REMOTE.BY.NAME", NOW, RNAME="R", RQMNAME="QM2"),
    create("QREMOTE", "REMOTE.BY.DEFAULT", NOW, RNAME="R", RQMNAME="QM9"),
    create("QREMOTE", "REMOTE.NOWHERE", NOW, RNAME="R"),
    create("QREMOTE", "REMOTE.HERE", NOW, RNAME="Q", RQMNAME="QM1"),
    create("QREMOTE", "REMOTE.NO.X", NOW, RNAME="R", RQMNAME="QM9", XMITQ="NOSUCH"),
    create("QREMOTE", "REMOTE.ALIAS.X", NOW, RNAME="R", RQMNAME="QM9", XMITQ="ALIAS"),
    create("QREMOTE", "REMOTE.NORMAL.X", NOW, RNAME="R", RQMNAME="QM9", XMITQ="Q"),
    create("QREMOTE", "QMA", NOW, RQMNAME="QM9", XMITQ="X"),
    create("QREMOTE", "QMA.BY.NAME", NOW, RQMNAME="QM2"),
    create("QREMOTE", "QMA.HERE", NOW, RQMNAME="QM1"),
    create("QREMOTE", "QMA.NOWHERE", NOW),
]  # fmt: skip
DEFINITIONS = {(each.space, each.name): each for each in OBJECTS}


def found(name: str, q_mgr_name: str, default: str = "") -> Resolution:
    """Return the resolution of the names on QM1, whose DEFXMITQ is `default`."""
    return resolve(DEFINITIONS, create("QMGR", "QM1", NOW, DEFXMITQ=default), name, q_mgr_name)


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "expected"),
    [
        ("Q", "", Resolution(("Q",), "Q", "QM1")),
        ("Q", "QM1", Resolution(("Q",), "Q", "QM1")),
        ("X", "", Resolution(("X",), "X", "QM1")),
        ("MODEL", "", Resolution(("MODEL",), "MODEL", "QM1", model=True)),
        ("ALIAS", "QM1", Resolution(("ALIAS", "Q"), "Q", "QM1")),
        ("ALIAS.REMOTE", "", Resolution(("ALIAS.REMOTE", "REMOTE", "X"), "R", "QM9", remote=True)),
        ("REMOTE", "", Resolution(("REMOTE", "X"), "R", "QM9", remote=True)),
        ("REMOTE.BY.NAME", "", Resolution(("REMOTE.BY.NAME", "QM2"), "R", "QM2", remote=True)),
        ("ANY", "X", Resolution(("X",), "ANY", "X", remote=True)),
        ("Q", "QM2", Resolution(("QM2",), "Q", "QM2", remote=True)),
        ("ANY", "QMA", Resolution(("QMA", "X"), "ANY", "QM9", remote=True, by_alias=True)),
        ("ANY", "QMA.BY.NAME", Resolution(("QMA.BY.NAME", "QM2"), "ANY", "QM2", remote=True, by_alias=True)),
        ("Q", "QMA.HERE", Resolution(("QMA.HERE", "Q"), "Q", "QM1", by_alias=True)),
        ("ALIAS", "QMA.HERE", Resolution(("QMA.HERE", "ALIAS", "Q"), "Q", "QM1", by_alias=True)),
        ("MODEL", "QMA.HERE", Resolution(("QMA.HERE", "MODEL"), "MODEL", "QM1", model=True, by_alias=True)),
    ],
)
def test_names_lead_to_a_queue(name: str, q_mgr_name: str, expected: Resolution) -> None:
    assert found(name, q_mgr_name) == expected


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "path"),
    [
        ("ANY", "QM9", ("X",)),
        ("ANY", "REMOTE", ("X",)),  # with an RNAME it is no queue manager alias
        ("ANY", "Q", ("X",)),  # nor is a local queue of normal usage a way to anywhere
        ("REMOTE.BY.DEFAULT", "", ("REMOTE.BY.DEFAULT", "X")),
    ],
)
def test_the_default_transmission_queue_is_the_last_way(name: str, q_mgr_name: str, path: tuple[str, ...]) -> None:
    by_default = found(name, q_mgr_name, "X")
    assert (by_default.path, by_default.remote, by_default.by_default) == (path, True, True)
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):
        found(name, q_mgr_name)


@pytest.mark.parametrize(
    ("name", "q_mgr_name", "reason"),
    [
        ("NOSUCH", "", MQRC.UNKNOWN_OBJECT_NAME),
        ("", "QM1", MQRC.UNKNOWN_OBJECT_NAME),
        (" Q", "", MQRC.UNKNOWN_OBJECT_NAME),
        ("Q\0", "", MQRC.UNKNOWN_OBJECT_NAME),
        ("NOSUCH", "QMA.HERE", MQRC.UNKNOWN_OBJECT_NAME),
        ("ALIAS.MISSING", "", MQRC.UNKNOWN_ALIAS_BASE_Q),
        ("ALIAS.BLANK", "", MQRC.UNKNOWN_ALIAS_BASE_Q),
        ("ALIAS.TOPIC", "", MQRC.UNKNOWN_ALIAS_BASE_Q),
        ("ALIAS.ALIAS", "", MQRC.ALIAS_BASE_Q_TYPE_ERROR),
        ("ALIAS.MODEL", "", MQRC.ALIAS_BASE_Q_TYPE_ERROR),
        ("ALIAS.QMA", "", MQRC.REMOTE_Q_NAME_ERROR),
        ("QMA", "", MQRC.REMOTE_Q_NAME_ERROR),
        ("", "QM2", MQRC.REMOTE_Q_NAME_ERROR),
        ("", "QMA", MQRC.REMOTE_Q_NAME_ERROR),
        ("REMOTE.NOWHERE", "", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("REMOTE.HERE", "", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("Q", "QMA.NOWHERE", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("Q", "MODEL", MQRC.UNKNOWN_REMOTE_Q_MGR),
        ("Q", "NO SUCH", MQRC.UNKNOWN_OBJECT_Q_MGR),
        ("Q", "M" * 49, MQRC.UNKNOWN_OBJECT_Q_MGR),
        ("REMOTE.NO.X", "", MQRC.UNKNOWN_XMIT_Q),
        ("REMOTE.ALIAS.X", "", MQRC.XMIT_Q_TYPE_ERROR),
        ("REMOTE.NORMAL.X", "", MQRC.XMIT_Q_USAGE_ERROR),
    ],
)
def test_names_that_lead_nowhere(name: str, q_mgr_name: str, reason: MQRC) -> None:
    with fails(reason):
        found(name, q_mgr_name)


@pytest.mark.parametrize(
    ("default", "reason"),
    [
        ("NOSUCH", MQRC.UNKNOWN_DEF_XMIT_Q),
        ("ALIAS", MQRC.DEF_XMIT_Q_TYPE_ERROR),
        ("Q", MQRC.DEF_XMIT_Q_USAGE_ERROR),
    ],
)
def test_the_default_transmission_queue_must_be_one(default: str, reason: MQRC) -> None:
    with fails(reason):
        found("ANY", "QM9", default)


def test_a_model_queue_is_no_way_even_beside_a_default() -> None:
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):
        found("Q", "MODEL", "X")
