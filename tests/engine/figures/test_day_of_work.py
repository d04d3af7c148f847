"""Each figure moves by exactly what a day of work does."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from broker.engine.figures.families import FamilyKind
from broker.engine.figures.scrape import Scrape
from broker.engine.figures.selection import FigureSelection
from broker.engine.figures.table import EVERMQ
from tests.engine.figures.day_of_work import CANARIES, DayOfWork
from tests.exposition import changes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exposition import Samples

PREFIX: Final = "evermq_"

OF_THE_STORE: Final = ("journal_", "log_", "database_", "disk_")
"""Figures of the store are compared with each other: how many bytes a record has is its own affair."""

OF_THE_MACHINE: Final = ("loop_",)

ELSEWHERE: Final = {
    "evermq_info", "evermq_queues_left_out", "evermq_disk_bytes", "evermq_disk_free_bytes", "evermq_loop_turn_seconds",
    "evermq_loop_longest_turn_seconds", "evermq_connections", "evermq_refused_connections_total",
    "evermq_in_flight_bytes",
}  # fmt: skip
"""Families with tests of their own, which a day of work need not move; those of groups are told where there is one."""

GROUPS: Final = (f"{PREFIX}group_", f"{PREFIX}structure_")

DAY: Final[tuple[tuple[str, Samples], ...]] = (
    ("put", {
        "bodies_bytes": 5,
        'calls_total{verb="put"}': 1,
        'queue_depth{queue="Q"}': 1,
        'queue_available{queue="Q"}': 1,
        'queue_bytes{queue="Q"}': 5,
        'queue_puts_total{queue="Q"}': 1,
        'queue_put_bytes_total{queue="Q"}': 5,
    }),
    ("browse", {
        'calls_total{verb="get"}': 1,
        'queue_browses_total{queue="Q"}': 1,
    }),
    ("wait_three_seconds", {
        'queue_oldest_message_age_seconds{queue="Q"}': 3,
        'queue_time_since_put_seconds{queue="Q"}': 3,
    }),
    ("get", {
        "bodies_bytes": -5,
        'calls_total{verb="get"}': 1,
        'queue_depth{queue="Q"}': -1,
        'queue_available{queue="Q"}': -1,
        'queue_bytes{queue="Q"}': -5,
        'queue_oldest_message_age_seconds{queue="Q"}': -3,
        'queue_gets_total{queue="Q"}': 1,
        'queue_get_bytes_total{queue="Q"}': 5,
        'queue_time_on_queue_seconds_sum{queue="Q"}': 3,
        'queue_time_on_queue_seconds_count{queue="Q"}': 1,
    }),
    ("get_from_empty", {
        'calls_total{verb="get"}': 1,
        'call_errors_total{reason="NO_MSG_AVAILABLE"}': 1,
    }),
    ("put_three_for_two", {
        "bodies_bytes": 2,
        'calls_total{verb="put"}': 3,
        'call_errors_total{reason="Q_FULL"}': 1,
        'queue_depth{queue="Q"}': 2,
        'queue_available{queue="Q"}': 2,
        'queue_bytes{queue="Q"}': 2,
        'queue_time_since_put_seconds{queue="Q"}': -3,
        'queue_puts_total{queue="Q"}': 2,
        'queue_put_bytes_total{queue="Q"}': 2,
        'queue_refused_puts_total{queue="Q",reason="Q_FULL"}': 1,
    }),
    ("get_and_back_out", {
        'calls_total{verb="backout"}': 1,
        'calls_total{verb="get"}': 1,
        'queue_gets_total{queue="Q"}': 1,
        'queue_get_bytes_total{queue="Q"}': 1,
        'queue_backed_out_total{queue="Q"}': 1,
        'queue_time_on_queue_seconds_count{queue="Q"}': 1,
    }),
    ("get_many", {
        "bodies_bytes": -2,
        'calls_total{verb="get_many"}': 1,
        'queue_depth{queue="Q"}': -2,
        'queue_available{queue="Q"}': -2,
        'queue_bytes{queue="Q"}': -2,
        'queue_gets_total{queue="Q"}': 2,
        'queue_get_bytes_total{queue="Q"}': 2,
        'queue_time_on_queue_seconds_count{queue="Q"}': 2,
    }),
    ("begin_a_unit", {
        "units_of_work": 1,
        'calls_total{verb="put"}': 1,
        'queue_depth{queue="Q"}': 1,
        'queue_uncommitted{queue="Q"}': 1,
        'queue_bytes{queue="Q"}': 2,
        'queue_puts_total{queue="Q"}': 1,
        'queue_put_bytes_total{queue="Q"}': 2,
    }),
    ("wait_three_seconds", {
        "oldest_unit_of_work_age_seconds": 3,
        'queue_time_since_put_seconds{queue="Q"}': 3,
        'queue_time_since_get_seconds{queue="Q"}': 3,
    }),
    ("commit", {
        "units_of_work": -1,
        "oldest_unit_of_work_age_seconds": -3,
        "bodies_bytes": 2,
        'calls_total{verb="commit"}': 1,
        'queue_available{queue="Q"}': 1,
        'queue_uncommitted{queue="Q"}': -1,
        'queue_oldest_message_age_seconds{queue="Q"}': 3,
    }),
    ("expire", {
        "bodies_bytes": -2,
        'calls_total{verb="get"}': 2,
        'calls_total{verb="put"}': 1,
        'call_errors_total{reason="NO_MSG_AVAILABLE"}': 1,
        'queue_depth{queue="Q"}': -1,
        'queue_available{queue="Q"}': -1,
        'queue_bytes{queue="Q"}': -2,
        'queue_oldest_message_age_seconds{queue="Q"}': -3,
        'queue_time_since_put_seconds{queue="Q"}': -1,
        'queue_time_since_get_seconds{queue="Q"}': -1,
        'queue_puts_total{queue="Q"}': 1,
        'queue_put_bytes_total{queue="Q"}': 3,
        'queue_gets_total{queue="Q"}': 1,
        'queue_get_bytes_total{queue="Q"}': 2,
        'queue_expired_total{queue="Q"}': 1,
        'queue_time_on_queue_seconds_sum{queue="Q"}': 3,
        'queue_time_on_queue_seconds_count{queue="Q"}': 1,
    }),
    ("delay", {
        "bodies_bytes": 1,
        'calls_total{verb="put"}': 1,
        'queue_depth{queue="Q"}': 1,
        'queue_delayed{queue="Q"}': 1,
        'queue_bytes{queue="Q"}': 1,
        'queue_time_since_put_seconds{queue="Q"}': -2,
        'queue_puts_total{queue="Q"}': 1,
        'queue_put_bytes_total{queue="Q"}': 1,
    }),
    ("come_due", {
        'queue_available{queue="Q"}': 1,
        'queue_delayed{queue="Q"}': -1,
        'queue_oldest_message_age_seconds{queue="Q"}': 1,
        'queue_time_since_put_seconds{queue="Q"}': 1,
        'queue_time_since_get_seconds{queue="Q"}': 1,
    }),
    ("drop_the_delayed", {
        "bodies_bytes": -1,
        'calls_total{verb="get"}': 1,
        'queue_depth{queue="Q"}': -1,
        'queue_available{queue="Q"}': -1,
        'queue_bytes{queue="Q"}': -1,
        'queue_oldest_message_age_seconds{queue="Q"}': -1,
        'queue_time_since_get_seconds{queue="Q"}': -3,
        'queue_gets_total{queue="Q"}': 1,
        'queue_get_bytes_total{queue="Q"}': 1,
        'queue_time_on_queue_seconds_sum{queue="Q"}': 1,
        'queue_time_on_queue_seconds_count{queue="Q"}': 1,
    }),
    ("alter", {
        'calls_total{verb="mqsc"}': 1,
        'commands_total{verb="ALTER"}': 1,
        'queue_depth_max{queue="Q"}': 1,
    }),
    ("come", {
        "conversations": 1,
        'calls_total{verb="open"}': 1,
        'queue_input_handles{queue="Q"}': 1,
        'queue_output_handles{queue="Q"}': 1,
    }),
    ("wait", {
        'calls_total{verb="get"}': 1,
        'queue_getters{queue="Q"}': 1,
    }),
    ("time_out", {
        'call_errors_total{reason="NO_MSG_AVAILABLE"}': 1,
        'queue_getters{queue="Q"}': -1,
        'queue_time_since_put_seconds{queue="Q"}': 60,
        'queue_time_since_get_seconds{queue="Q"}': 60,
    }),
    ("serve_too", {
        'calls_total{verb="serve"}': 1,
        'handler_workers{queue="WORK",handler=""}': 1,
    }),
    ("go", {
        "conversations": -1,
        'calls_total{verb="disconnect"}': 1,
        'queue_input_handles{queue="Q"}': -1,
        'queue_output_handles{queue="Q"}': -1,
        'handler_workers{queue="WORK",handler=""}': -1,
    }),
    ("put_work", {
        "bodies_bytes": 4,
        'calls_total{verb="put1"}': 1,
        'queue_depth{queue="WORK"}': 1,
        'queue_available{queue="WORK"}': 1,
        'queue_bytes{queue="WORK"}': 4,
        'queue_trigger_pending{queue="WORK"}': 1,
        'queue_puts_total{queue="WORK"}': 1,
        'queue_put_bytes_total{queue="WORK"}': 4,
    }),
    ("take_work", {
        "bodies_bytes": -4,
        'calls_total{verb="settle_deliveries"}': 1,
        'calls_total{verb="take_deliveries"}': 1,
        'queue_depth{queue="WORK"}': -1,
        'queue_available{queue="WORK"}': -1,
        'queue_bytes{queue="WORK"}': -4,
        'queue_trigger_pending{queue="WORK"}': -1,
        'queue_gets_total{queue="WORK"}': 1,
        'queue_get_bytes_total{queue="WORK"}': 4,
        'queue_time_on_queue_seconds_count{queue="WORK"}': 1,
        'handler_attempts_total{queue="WORK",handler="",outcome="succeeded"}': 1,
        'handler_history_lost_total{queue="WORK",handler=""}': 1,
        'handler_started_total{queue="WORK",handler=""}': 1,
        'handler_wait_seconds_count{queue="WORK",handler=""}': 1,
        'handler_run_seconds_sum{queue="WORK",handler=""}': 0.25,
        'handler_run_seconds_count{queue="WORK",handler=""}': 1,
    }),
    ("begin_to_handle", {
        "bodies_bytes": 3,
        'calls_total{verb="put1"}': 1,
        'calls_total{verb="take_deliveries"}': 1,
        'queue_uncommitted{queue="WORK"}': 1,
        'queue_bytes{queue="WORK"}': 3,
        'queue_puts_total{queue="WORK"}': 1,
        'queue_put_bytes_total{queue="WORK"}': 3,
        'queue_gets_total{queue="WORK"}': 1,
        'queue_get_bytes_total{queue="WORK"}': 3,
        'queue_time_on_queue_seconds_count{queue="WORK"}': 1,
        'handler_started_total{queue="WORK",handler=""}': 1,
        'handler_running{queue="WORK",handler=""}': 1,
        'handler_places{queue="WORK",handler=""}': 1,
        'handler_wait_seconds_count{queue="WORK",handler=""}': 1,
    }),
    ("finish_a_step", {
        'calls_total{verb="step"}': 1,
        "steps_bytes": 13,
    }),
    ("fail", {
        'calls_total{verb="settle_deliveries"}': 1,
        'queue_depth{queue="WORK"}': 1,
        'queue_uncommitted{queue="WORK"}': -1,
        'queue_delayed{queue="WORK"}': 1,
        'queue_backed_out_total{queue="WORK"}': 1,
        'handler_attempts_total{queue="WORK",handler="",outcome="failed"}': 1,
        'handler_running{queue="WORK",handler=""}': -1,
        'handler_places{queue="WORK",handler=""}': -1,
        'handler_run_seconds_sum{queue="WORK",handler=""}': 0.25,
        'handler_run_seconds_count{queue="WORK",handler=""}': 1,
    }),
    ("fail_again", {
        'calls_total{verb="settle_deliveries"}': 1,
        'calls_total{verb="take_deliveries"}': 1,
        "steps_bytes": -13,
        'queue_depth{queue="DEAD"}': 1,
        'queue_depth{queue="WORK"}': -1,
        'queue_available{queue="DEAD"}': 1,
        'queue_delayed{queue="WORK"}': -1,
        'queue_bytes{queue="DEAD"}': 3,
        'queue_bytes{queue="WORK"}': -3,
        'queue_oldest_message_age_seconds{queue="DEAD"}': 60,
        'queue_time_since_put_seconds{queue="Q"}': 60,
        'queue_time_since_put_seconds{queue="WORK"}': 60,
        'queue_time_since_get_seconds{queue="Q"}': 60,
        'queue_puts_total{queue="DEAD"}': 1,
        'queue_put_bytes_total{queue="DEAD"}': 3,
        'queue_gets_total{queue="WORK"}': 1,
        'queue_get_bytes_total{queue="WORK"}': 3,
        'queue_time_on_queue_seconds_sum{queue="WORK"}': 60,
        'queue_time_on_queue_seconds_count{queue="WORK"}': 1,
        'handler_attempts_total{queue="WORK",handler="",outcome="timeout"}': 1,
        'handler_started_total{queue="WORK",handler=""}': 1,
        'handler_retries_total{queue="WORK",handler=""}': 1,
        'handler_dead_letters_total{queue="WORK",handler="",reason="timed_out"}': 1,
        'handler_history_lost_total{queue="WORK",handler=""}': 1,
        'handler_wait_seconds_sum{queue="WORK",handler=""}': 60,
        'handler_wait_seconds_count{queue="WORK",handler=""}': 1,
        'handler_run_seconds_sum{queue="WORK",handler=""}': 30,
        'handler_run_seconds_count{queue="WORK",handler=""}': 1,
    }),
    ("claim", {
        "bodies_bytes": 3,
        'calls_total{verb="claim"}': 1,
        'calls_total{verb="consumer"}': 1,
        'calls_total{verb="pin"}': 1,
        'calls_total{verb="put1"}': 1,
        'calls_total{verb="register"}': 1,
        'queue_depth{queue="CLAIMED"}': 1,
        'queue_claimed{queue="CLAIMED"}': 1,
        'queue_bytes{queue="CLAIMED"}': 3,
        'queue_puts_total{queue="CLAIMED"}': 1,
        'queue_put_bytes_total{queue="CLAIMED"}': 3,
        'queue_gets_total{queue="CLAIMED"}': 1,
        'queue_get_bytes_total{queue="CLAIMED"}': 3,
        'queue_time_on_queue_seconds_count{queue="CLAIMED"}': 1,
        'consumer_claimed{consumer="ARCHIVE"}': 1,
    }),
    ("prepare", {
        'calls_total{verb="prepare"}': 1,
        'calls_total{verb="put1"}': 1,
        "in_doubt_units": 1,
        'queue_depth{queue="SUNK"}': 1,
        'queue_uncommitted{queue="SUNK"}': 1,
        'queue_bytes{queue="SUNK"}': 2,
        'queue_puts_total{queue="SUNK"}': 1,
        'queue_put_bytes_total{queue="SUNK"}': 2,
    }),
    ("wait_three_seconds", {
        "in_doubt_oldest_seconds": 3,
        'queue_time_since_put_seconds{queue="SUNK"}': 3,
        'queue_oldest_message_age_seconds{queue="DEAD"}': 3,
        'queue_time_since_put_seconds{queue="CLAIMED"}': 3,
        'queue_time_since_put_seconds{queue="DEAD"}': 3,
        'queue_time_since_put_seconds{queue="Q"}': 3,
        'queue_time_since_put_seconds{queue="WORK"}': 3,
        'queue_time_since_get_seconds{queue="CLAIMED"}': 3,
        'queue_time_since_get_seconds{queue="Q"}': 3,
        'queue_time_since_get_seconds{queue="WORK"}': 3,
        'consumer_oldest_claim_age_seconds{consumer="ARCHIVE"}': 3,
    }),
    ("decide", {
        'calls_total{verb="decide"}': 1,
        "in_doubt_units": -1,
        "in_doubt_oldest_seconds": -3,
        'queue_depth{queue="SUNK"}': -1,
        'queue_uncommitted{queue="SUNK"}': -1,
        'queue_bytes{queue="SUNK"}': -2,
    }),
    ("fall_behind", {
        "bodies_bytes": 2,
        'calls_total{verb="put1"}': 1,
        'queue_depth{queue="CLAIMED"}': 1,
        'queue_available{queue="CLAIMED"}': 1,
        'queue_bytes{queue="CLAIMED"}': 2,
        'queue_time_since_put_seconds{queue="CLAIMED"}': -3,
        'queue_puts_total{queue="CLAIMED"}': 1,
        'queue_put_bytes_total{queue="CLAIMED"}': 2,
        'consumer_lag_messages{consumer="ARCHIVE"}': 1,
    }),
    ("acknowledge", {
        "bodies_bytes": -3,
        'calls_total{verb="acknowledge"}': 1,
        'queue_depth{queue="CLAIMED"}': -1,
        'queue_claimed{queue="CLAIMED"}': -1,
        'queue_bytes{queue="CLAIMED"}': -3,
        'consumer_claimed{consumer="ARCHIVE"}': -1,
        'consumer_oldest_claim_age_seconds{consumer="ARCHIVE"}': -3,
    }),
    ("stage", {
        "bodies_bytes": 4,
        'calls_total{verb="stage"}': 1,
        'queue_depth{queue="SUNK"}': 1,
        'queue_prepared{queue="SUNK"}': 1,
        'queue_bytes{queue="SUNK"}': 4,
        "prepared_units": 1,
    }),
    ("publish", {
        'calls_total{verb="publish"}': 1,
        'queue_available{queue="SUNK"}': 1,
        'queue_prepared{queue="SUNK"}': -1,
        'queue_puts_total{queue="SUNK"}': 1,
        'queue_put_bytes_total{queue="SUNK"}': 4,
        'queue_time_since_put_seconds{queue="SUNK"}': -3,
        "prepared_units": -1,
    }),
    ("damage", {
        'queue_available{queue="SUNK"}': -1,
        'queue_damaged{queue="SUNK"}': 1,
        "damaged_messages": 1,
    }),
    ("carry_over", {
        "carry_overs_total": 1,
        "carry_over_seconds_count": 1,
    }),
    ("fill_the_disk", {
        "store_full": 1,
    }),
    ("quiesce", {
        "quiescing": 1,
    }),
)  # fmt: skip
"""What the program and the others do, and by how much that moves each series, without its prefix; nothing else moves.
Of histograms there are sums and counts.
"""


def family_of(series: str) -> str:
    """Return the family of a series."""
    name = series.partition("{")[0]
    base = re.sub("_(bucket|sum|count)$", "", name)
    return base if base in HISTOGRAMS else name


FAMILIES = {family.name: family for section in EVERMQ for family in section.families}
HISTOGRAMS = {name for name, family in FAMILIES.items() if family.kind is FamilyKind.HISTOGRAM}


async def test_o3_1_and_o3_2_each_figure_moves_by_what_a_day_of_work_does(tmp_path: Path) -> None:
    moved: set[str] = set()
    async with DayOfWork(tmp_path / "data") as day:
        before = day.figures()
        for act, expected in DAY:
            await getattr(day, act)()
            after = day.figures()
            found = changes(before, after)
            moved |= {family_of(series) for series in found}
            assert shown(found) == expected, act
            assert not [series for series, by in found.items() if by < 0 and is_counted(series)], act
            check_store(found)
            before = after
    untold = set(FAMILIES) - moved - ELSEWHERE
    assert not [name for name in untold if not name.startswith(GROUPS)]


def shown(found: Samples) -> Samples:
    """Return the changes that the table tells."""
    hidden = tuple(f"{PREFIX}{each}" for each in (*OF_THE_STORE, *OF_THE_MACHINE))
    return {
        series.removeprefix(PREFIX): round(by, 3)
        for series, by in found.items()
        if not series.startswith(hidden) and "_bucket{" not in series
    }


def is_counted(series: str) -> bool:
    """True for a series that never falls."""
    return FAMILIES[family_of(series)].kind is not FamilyKind.GAUGE


def check_store(found: Samples) -> None:
    """Raise AssertionError where what was written does not agree."""
    records = found.get("evermq_log_batches_total", 0)
    assert found.get("evermq_log_sync_seconds_count", 0) == records
    assert found.get("evermq_journal_transactions_total", 0) == records
    assert found.get("evermq_journal_units_total", 0) >= records
    assert (found.get("evermq_log_bytes_total", 0) > 0) == (records > 0)


async def test_prometheus_reads_the_figures_of_a_day(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    text = await whole_day(tmp_path)
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families["evermq_queue_time_on_queue_seconds"].type == "histogram"
    assert sum(len(family.samples) for family in families.values()) == sum(line[0] != "#" for line in text.splitlines())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
async def test_promtool_finds_nothing_to_say_of_the_figures_of_a_day(tmp_path: Path) -> None:
    text = await whole_day(tmp_path)
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_figures_have_nothing_of_messages_and_of_what_handlers_raise(tmp_path: Path) -> None:
    text = await whole_day(tmp_path)
    for canary in (*CANARIES, "ValueError"):
        assert canary not in text


async def whole_day(path: Path) -> str:
    """Return the figures at the end of the day."""
    async with DayOfWork(path / "data") as day:
        for act, _ in DAY:
            await getattr(day, act)()
        scrape = Scrape(day.manager, FigureSelection())
        for _ in scrape.steps():
            pass
        return scrape.text
