"""`@process` tags a function, and refuses everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from triggers import TriggerMessage, process
from triggers.monitor.process import processes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def serve(trigger: TriggerMessage, connection: Any) -> None: ...


def test_it_returns_the_function_itself_with_the_name_attached() -> None:
    async def on_message(trigger: TriggerMessage, connection: Any) -> None: ...

    assert process("MYPROCESS")(on_message) is on_message
    assert processes_of(on_message) == ("MYPROCESS",)


def test_a_function_can_serve_two_processes() -> None:
    @process("A")
    @process("B")
    async def on_message(trigger: TriggerMessage, connection: Any) -> None: ...

    assert processes_of(on_message) == ("B", "A")


def test_a_function_without_the_decorator_serves_none() -> None:
    assert processes_of(serve) == ()


def test_a_plain_function_can_serve_a_process() -> None:
    @process("A")
    def on_message(trigger: TriggerMessage, connection: Any) -> None: ...

    assert processes_of(on_message) == ("A",)


async def several(trigger: TriggerMessage, connection: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [several, int, "on_message", None], ids=["generator", "class", "text", "None"])
def test_what_is_no_function_is_a_type_error(function: Any) -> None:
    with pytest.raises(TypeError, match=r"@process\('A'\): .* is no function"):
        process("A")(function)


def one(body: str) -> None: ...


def three(trigger: TriggerMessage, connection: Any, more: str) -> None: ...


@pytest.mark.parametrize("function", [one, three])
def test_what_cannot_be_called_with_a_trigger_message_and_a_connection_is_a_type_error(function: Any) -> None:
    with pytest.raises(
        TypeError, match=r"\(.*test_process_decorator.py, line \d+\) is called with the trigger message"
    ):
        process("A")(function)
    process("A", deliver="message")(one)


def test_the_decorator_without_a_name_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r'as in @process\("ORDERS"\)'):
        process(serve)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "X" * 49, "TWO WORDS", "ÄRGER", "A-B", "A\n"])
def test_what_is_no_name_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a process definition"):
        process(name)


def test_a_trigger_message_is_the_mqtmc2() -> None:
    trigger = TriggerMessage("Q", "P", "THISISTRIGGER", "APPL", "MYENVR", "TESTING", "QM1")
    assert len(bytes(trigger)) == 732
    assert bytes(trigger)[:8] == b"TMC    2"
    assert (trigger.q_name, trigger.process_name, trigger.trigger_data) == ("Q", "P", "THISISTRIGGER")
    assert (trigger.appl_id, trigger.env_data, trigger.user_data) == ("APPL", "MYENVR", "TESTING")
    assert trigger.q_mgr_name == "QM1"
