"""Exactly once with real kills: driver, JVM and daemon, judged from ledgers that know nothing of the queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.kills import VICTIMS, run
from tests.spark.traffic import Units, judge

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.kills import Account

pytestmark = pytest.mark.spark


def check(account: Account, kills: int) -> None:
    assert account.complaints == []
    assert account.kills == dict.fromkeys(VICTIMS, kills)
    for what in ("archived", "taken by the rival", "moved"):
        assert account.figures[what] > 100, what


@pytest.mark.timeout(900)
async def test_each_is_killed_once_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """K71."""
    check(await run(tmp_path, kills=1, seed=1), kills=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_each_is_killed_six_times_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """K71."""
    check(await run(tmp_path, kills=6, seed=2), kills=6)


def ledger(folder: Path, name: str, *lines: str) -> Units:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return Units(folder / name)


@pytest.mark.parametrize(
    ("archive", "complaints"),
    [
        (["a", "b", "d"], []),
        (["a", "d"], ["b is lost"]),
        (["a", "b", "c", "d"], ["c is doubled: 2 times"]),
        (["a", "b", "d", "e"], ["of ['e', 'f'] only a part was put"]),
        (["a", "b", "d", "e", "f"], []),
        (["a", "b", "d", "z"], ["nobody has put z"]),
        (["a", "b", "d", "g"], ["h is lost"]),
    ],
)
def test_the_judge_tells_what_is_wrong(tmp_path: Path, archive: list[str], complaints: list[str]) -> None:
    """`c` was taken; `e` and `f` were put perhaps; `g` and `h` were taken perhaps."""
    put = ledger(tmp_path, "put", "1 asked a b c d", "1 done ", "2 asked e f", "3 asked g h", "3 done ")
    taken = ledger(tmp_path, "taken", "1 asked c", "1 done ", "2 asked a", "2 undone ", "3 asked g h")
    assert judge(put, taken, {"archive": archive}) == complaints
