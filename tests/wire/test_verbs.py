"""Each call is the same in its row, in the signature of its port's method, and in what the ports do with it."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any

import pytest

from broker.client.lasting_deliveries import LastingDeliveries
from broker.client.port import RemotePort
from broker.client.reconnecting import ReconnectingPort
from broker.engine.conversation import Conversation
from broker.interface.port import Call, Port
from broker.wire import Verb
from broker.wire.fields import SENT
from broker.wire.verbs import BY_NAME, BY_VERB, CALLS, ROWS, STARTED, VerbRow

BY_HAND = {Verb.PUT, Verb.PUT_MANY, Verb.GET, Verb.SETTLE, Verb.PREPARE_DELIVERIES, Verb.DECIDE}
"""The calls whose arguments no fields tell."""

OF_A_LINE = {Verb.CONNECT, Verb.DELIVERY_CONNECT}
"""The calls that open a conversation, on which no port can make them."""

TOLD = {Verb.TRIGGER_DONE, Verb.TRIGGER_RETURN, Verb.GIVE_BACK}
"""They need no answer, and are no calls."""

BY_FIELDS = [row for row in ROWS if row.verb in STARTED and row.by_hand is None]


def parameters(port: type[Port], row: VerbRow) -> dict[str, Parameter]:
    """Those of a method of the port, without `self`."""
    _, *others = inspect.signature(getattr(port, row.name)).parameters.values()
    return {each.name: each for each in others}


class Forwarded(Port):
    """A port that tells what is forwarded."""

    forwarded: tuple[Any, ...]

    def forward(self, name: str, *values: Any) -> Call[Any]:
        self.forwarded = name, *values
        return Call()


def test_every_call_has_one_row() -> None:
    assert [*BY_VERB, *BY_NAME] == [*(row.verb for row in ROWS), *(row.name for row in ROWS)]
    assert BY_VERB.keys() == CALLS - TOLD
    assert BY_VERB.keys() - STARTED == OF_A_LINE
    assert {row.verb for row in ROWS if row.by_hand} == BY_HAND


def test_the_rows_name_the_calls_of_the_port() -> None:
    signatures = {name: inspect.signature(method) for name, method in inspect.getmembers(Port, inspect.isfunction)}
    calls = {name for name, each in signatures.items() if str(each.return_annotation).startswith("Call[")}
    assert BY_NAME.keys() == calls - {"forward"}


@pytest.mark.parametrize("row", BY_FIELDS, ids=lambda row: row.name)
async def test_a_row_has_the_arguments_of_its_call_in_the_order_in_which_they_are_forwarded(row: VerbRow) -> None:
    """A frame's arguments are passed by their names, so their order in the signature may be another."""
    names = [field.name for field in row.fields]
    wanted = parameters(Port, row)
    assert sorted(names) == sorted(wanted)
    port = Forwarded()
    getattr(port, row.name)(**{name: f"<{name}>" for name in names})
    assert port.forwarded == (row.name, *(f"<{name}>" for name in names))


@pytest.mark.parametrize("row", BY_FIELDS, ids=lambda row: row.name)
def test_an_argument_that_a_frame_leaves_out_has_its_default_in_the_signature(row: VerbRow) -> None:
    wanted = parameters(Port, row)
    assert all(wanted[field.name].default == field.default for field in row.fields if field.default is not SENT)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_other_ports_name_the_arguments_as_the_port_does(row: VerbRow) -> None:
    wanted = {name: (each.kind, each.default) for name, each in parameters(Port, row).items()}
    for port in (Conversation, RemotePort, ReconnectingPort):
        assert {name: (each.kind, each.default) for name, each in parameters(port, row).items()} == wanted, port


def test_what_a_remote_port_does_by_itself_a_reconnecting_port_does_not_forward() -> None:
    """It forwards to the row, past the method of the remote port."""
    assert vars(RemotePort).keys() & BY_NAME.keys() <= {*vars(LastingDeliveries), *vars(ReconnectingPort)}
