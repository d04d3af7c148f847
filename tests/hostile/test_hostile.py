"""Nobody stops the daemon or fills it: each attack, beside a second client that puts and gets every 10 ms.

The second client's calls are timed from when they were due. None takes longer than the attack allows, 500 ms for most,
times `PATIENCE` for what a shared machine does besides (`python -m tests.hostile` prints the figures). The daemon's
memory stays under 300 MiB, nothing that was acknowledged is lost, a new client is served afterwards, nothing of the
stranger is left, the log has no error that the attack does not explain, and the daemon stops in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tests.hostile import calls, lines, messages, scripts, walks
from tests.hostile.families import LARGER
from tests.hostile.verdict import judged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.scene import Attack


PATIENCE: Final = 8


def name(attack: Attack) -> str:
    return attack.name


async def faults(attack: Attack, folder: Path) -> tuple[str, ...]:
    return (await judged(replace(attack, worst_ms=PATIENCE * attack.worst_ms), folder)).faults


@pytest.mark.parametrize("attack", scripts.ATTACKS, ids=name)
async def test_no_script_stops_the_daemon_or_fills_it(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()


@pytest.mark.parametrize("attack", messages.ATTACKS, ids=name)
async def test_no_message_stops_the_daemon_or_fills_it(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()


@pytest.mark.parametrize("attack", calls.ATTACKS, ids=name)
async def test_nothing_held_for_a_client_fills_the_daemon(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()


@pytest.mark.parametrize("attack", walks.ATTACKS, ids=name)
async def test_no_long_work_stops_the_daemon(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()


@pytest.mark.parametrize("attack", lines.ATTACKS, ids=name)
async def test_no_line_stops_the_daemon(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("attack", LARGER, ids=name)
async def test_nothing_larger_stops_the_daemon_or_fills_it(attack: Attack, tmp_path: Path) -> None:
    assert await faults(attack, tmp_path) == ()
