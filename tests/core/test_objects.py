"""Objects by name, without a queue manager around them: where names lead, and the names that deleted queues keep."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from broker.commands.table.attributes import create
from broker.core.calls import defining
from broker.core.identifiers import Identifiers
from broker.core.names.definitions import Define, Delete
from broker.core.names.objects import Objects
from broker.core.names.opening import make_dynamic, open_object
from broker.core.queues.effects import Effects
from broker.core.queues.handles import Hconn
from broker.core.triggers import Triggers
from broker.mqi import MQOO, MQRC, ObjectDescriptor
from tests.core.world import fails

MADE = datetime(2027, 1, 1, tzinfo=UTC)
NOW = MADE.timestamp()
OUTPUT = int(MQOO.OUTPUT)


class Named:
    """The objects of a queue manager QM1, and how they are changed."""

    def __init__(self) -> None:
        manager = create("QMGR", "QM1", MADE)
        self.effects = Effects()
        self.objects = Objects(manager, Identifiers("QM1", NOW, 0, 1208), self.effects)
        self.triggers = Triggers(self.objects, self.effects)

    def define(self, kind: str, name: str, **attributes: int | str) -> Effects:
        change, _ = defining.freeze(self.objects, Define(create(kind, name, MADE, **attributes)))
        defining.apply(self.objects, self.triggers, change)
        return self.effects.take()

    def delete(self, name: str) -> Effects:
        change, _ = defining.freeze(self.objects, Delete("QUEUE", name))
        defining.apply(self.objects, self.triggers, change)
        return self.effects.take()


@pytest.fixture
def named() -> Named:
    return Named()


def test_a_name_leads_through_an_alias_to_the_local_queue(named: Named) -> None:
    named.define("QLOCAL", "Q")
    named.define("QALIAS", "A", TARGET="Q")

    route = named.objects.destination("A", "")

    assert [level.name for level in route.levels] == ["A", "Q"]
    assert route.queue is named.objects.queues["Q"]


def test_a_handle_that_goes_by_the_default_transmission_queue_is_unusable_when_that_changes(named: Named) -> None:
    for name in ("X", "Y"):
        named.define("QLOCAL", name, USAGE=1)
    named.define("QMGR", "QM1", DEFXMITQ="X")
    od = ObjectDescriptor(object_name="THERE", object_q_mgr_name="QM2")
    handle = open_object(named.objects, Hconn(), od, OUTPUT)
    assert named.objects.default_routes() == [handle]

    named.define("QMGR", "QM1", DEFXMITQ="Y")

    with fails(MQRC.OBJECT_CHANGED):
        handle.check_unchanged()


def test_a_deleted_queue_keeps_its_name_from_dynamic_queues_while_it_is_open(named: Named) -> None:
    named.define("QLOCAL", "Q")
    named.define("QMODEL", "M")
    handle = open_object(named.objects, Hconn(), ObjectDescriptor(object_name="Q"), OUTPUT)
    queue = named.objects.queues["Q"]
    named.delete("Q")
    model = ObjectDescriptor(object_name="M", dynamic_q_name="Q")
    assert named.objects.opens_model(model)

    with fails(MQRC.NAME_IN_USE):
        make_dynamic(named.objects, Hconn(), model, OUTPUT, NOW)

    queue.handles.discard(handle)
    assert make_dynamic(named.objects, Hconn(), model, OUTPUT, NOW).definition.name == "Q"
