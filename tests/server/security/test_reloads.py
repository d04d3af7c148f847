"""Certificates change under load, and the judge of that sees what must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.security.reloads.run import Chosen, judge, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop of the processes that take part."""
    return "asyncio", {"use_uvloop": True}


def test_the_judge_is_content_when_each_message_was_got_once_by_whomever() -> None:
    assert list(judge({0: (2, [(1, 0)]), 1: (1, [(0, 1), (0, 0)])})) == []


def test_the_judge_sees_what_was_lost_doubled_or_never_put() -> None:
    assert list(judge({0: (2, [(0, 0)])})) == ["message 1 of line 0 was lost"]
    assert list(judge({0: (1, [(0, 0)]), 1: (0, [(0, 0)])})) == ["message 0 of line 0 was got 2 times, put 1"]
    assert list(judge({0: (0, [(7, 3)])})) == ["message 3 of line 7 was got 1 times, put 0"]


@pytest.mark.timeout(600)
async def test_x3_1_nothing_is_lost_while_certificates_change_under_load(tmp_path: Path) -> None:
    result = await run(tmp_path, Chosen(lines=100, processes=2, reloads=20))
    assert result.wrong == [], str(result)
    assert result.bad == 2
    assert result.fewest > 0
