"""`evermq pause` and `evermq resume` against a daemon in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    Evermq = Callable[..., Result]


@pytest.fixture
def queue(on: Evermq) -> str:
    """A queue that starts handlers, with a message."""
    define = "DEFINE PROCESS(P) REPLACE\nDEFINE QLOCAL(PAUSED) REPLACE TRIGGER TRIGTYPE(EVERY) PROCESS(P)\n"
    on("mqsc", input=f"{define}CLEAR QLOCAL(PAUSED)\n".encode())
    on("put", "PAUSED", "x")
    return "PAUSED"


def trigger(on: Evermq) -> bool:
    shown = on("mqsc", input=b"DISPLAY QLOCAL(PAUSED) TRIGGER\n").stdout
    return "NOTRIGGER" not in shown.split("AMQ8409I")[1]


def test_a_queue_is_paused_and_resumed_and_each_is_a_line(on: Evermq, queue: str) -> None:
    assert trigger(on)
    for verb, said, triggers in (
        ("pause", "PAUSED is paused, 1 message on it\n", False),
        ("pause", "PAUSED is paused already, 1 message on it\n", False),
        ("resume", "PAUSED is resumed, 1 message on it\n", True),
        ("resume", "PAUSED is not paused, 1 message on it\n", True),
    ):
        result = on(verb, queue)
        assert (result.exit_code, result.stdout, trigger(on)) == (0, said, triggers)


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("name", ["NO.SUCH.QUEUE", "it's", "paused"])
def test_a_queue_that_is_not_there_is_one_line(on: Evermq, queue: str, verb: str, name: str) -> None:
    result = on(verb, name)
    assert (result.exit_code, result.stderr.count("\n")) == (10, 1)
    assert result.stderr.startswith(f"evermq: MQRC_UNKNOWN_OBJECT_NAME (2085): there is no local queue {name}")


def test_a_queue_that_starts_nothing_cannot_be_resumed(on: Evermq) -> None:
    on("mqsc", input=b"DEFINE QLOCAL(UNTRIGGERED) REPLACE\n")
    result = on("resume", "UNTRIGGERED")
    assert (result.exit_code, result.stderr.count("\n")) == (10, 1)
    assert result.stderr.startswith("evermq: UNTRIGGERED starts no handlers: TRIGTYPE(FIRST) PROCESS(); name a process")
