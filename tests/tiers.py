"""The tests of an ordinary run: the quick tier by default, all of them with `--full`.

The quick tier is run at each change, the full one before a release of what was changed. A file that is not named below
is in both, wholly. So is a file or test that is named on the command line, in whichever tier: who names it wants it.

Of a scenario in `tests/conformance/` the quick tier has the one embedded in memory, and at every second commit one of
the other systems; of what `PARTS` names one test in so many. A hash of the test's name and of the rotation, which is
the commit or EVERMQ_ROTATION, tells which these are. So each test is run at one change or another, and the same ones
by all who are at a commit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.rows import ROWS_IN_HALF, row_of, system_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

ROTATION: Final = "EVERMQ_ROTATION"
ROOT: Final = Path(__file__).parents[1]

WHOLE: Final = 1
NONE: Final = 0

PARTS: Final = {
    "tests/cli/": 3,
    "tests/cli/test_bench.py": 3,
    "tests/cli/test_daemon.py": 3,
    "tests/cli/test_demo.py": 6,
    "tests/cli/test_http.py": 2,
    "tests/cli/test_monitor.py": 3,
    "tests/cli/test_pipeline_archives.py": NONE,
    "tests/cli/test_streams.py": 3,
    "tests/client/": 3,
    "tests/client/test_line_pool.py": 2,
    "tests/conformance/test_browse_marks.py::test_the_interval_is_an_attribute_of_the_queue_manager": 5,
    "tests/conformance/test_claim_commands.py::test_old_claims_are_named_in_the_log_each_hour": 5,
    "tests/conformance/test_consumers.py::test_a_message_of_a_hundred_mebibytes_goes_alone": 5,
    "tests/conformance/test_sink_batches.py::test_a_message_of_the_longest_kind_is_staged_alone": 5,
    "tests/core/security/test_access.py::test_x9_1_connections_are_explained_as_they_are_and_granted_alone": 10,
    "tests/core/security/test_authority.py::test_x6_1_random_records_give_the_rights_that_a_naive_judge_gives": 5,
    "tests/core/test_cost.py": 2,
    "tests/core/test_groups_model.py::test_on_a_random_walk_groups_are_those_of_the_model": 8,
    "tests/core/test_model.py::test_on_a_long_walk_the_core_does_what_the_model_does": 4,
    "tests/databases/": 4,
    "tests/databases/test_behaviours.py": 6,
    "tests/databases/test_lost.py": 4,
    "tests/databases/test_opening.py": 3,
    "tests/deploy/": 2,
    "tests/disk/test_schedules.py": 6,
    "tests/disk/test_upgrades.py": 12,
    "tests/durability/": 16,
    "tests/durability/test_ledger.py": WHOLE,
    "tests/durability/test_report.py": WHOLE,
    "tests/engine/": 3,
    "tests/engine/test_batch_cancellation.py": 5,
    "tests/engine/test_cancellation.py": 6,
    "tests/engine/test_external_units.py::test_ten_thousand_units_that_are_decided_leave_nothing": 4,
    "tests/engine/test_fast_path_twins.py": 3,
    "tests/engine/test_interleavings.py": 3,
    "tests/engine/test_memory.py": 3,
    "tests/engine/test_sinks.py::test_a_key_makes_a_batch_happen_once_and_ends_in_time": NONE,
    "tests/examples/": 5,
    "tests/examples/test_readme.py::test_every_block_is_run_here": WHOLE,
    "tests/examples/test_readme.py::test_every_link_leads_somewhere": WHOLE,
    "tests/examples/test_readme.py::test_the_first_lines_are_as_many_as_their_title_says": WHOLE,
    "tests/examples/test_readme.py::test_the_readme_is_read_in_three_minutes": WHOLE,
    "tests/examples/test_readme.py::test_the_second_command_is_what_must_pass_before_a_change_lands": WHOLE,
    "tests/examples/test_sharing.py": NONE,
    "tests/handlers/": 3,
    "tests/handlers/test_a_thousand.py": NONE,
    "tests/handlers/test_any_mix.py::test_h13_1_the_sum_holds_for_ten_thousand_outcomes": NONE,
    "tests/handlers/test_app_in_tests.py::test_h11_3_the_same_seed_gives_the_same_thousand_events": NONE,
    "tests/handlers/test_app_in_time.py::test_idle_ends_where_something_is_tried_again_for_ever": NONE,
    "tests/handlers/test_cases.py": WHOLE,
    "tests/handlers/test_delay.py::test_h3_9_a_message_that_waits_takes_at_most_100_bytes_more": NONE,
    "tests/handlers/test_ending_the_loop.py": 4,
    "tests/handlers/test_exits.py::test_h1_11_a_handler_that_ends_the_queue_manager_ends_it_so_often_and_no_more": 4,
    "tests/handlers/test_kills.py": 8,
    "tests/handlers/test_not_definable.py::test_a_worker_prints_the_lines_once_and_ends": 4,
    "tests/handlers/test_order.py::test_h6_3_each_key_is_handled_in_order_whatever_fails_and_goes": 4,
    "tests/handlers/test_refused.py::test_a_worker_whose_user_is_refused_ends_as_at_its_start": 4,
    "tests/handlers/test_refused.py::test_all_processes_end_where_one_that_is_started_again_is_refused_twice": 4,
    "tests/handlers/test_requests.py::test_h10_1_ten_thousand_at_once_each_get_their_own": NONE,
    "tests/handlers/test_scale.py": NONE,
    "tests/handlers/test_step_kills.py": 2,
    "tests/handlers/test_worker_processes.py": 5,
    "tests/hostile/": 20,
    "tests/hostile/test_verdict.py": 3,
    "tests/http/": 4,
    "tests/http/console/test_browser.py": NONE,
    "tests/http/console/test_browser_pages.py": NONE,
    "tests/http/console/test_dead_letters.py::test_n2_3_hostile_reasons_errors_and_payloads_are_text": 10,
    "tests/http/console/test_log_page.py::test_n2_3_hostile_lines_are_text": 20,
    "tests/http/console/test_objects_page.py::test_n2_3_hostile_queries_are_text": 20,
    "tests/http/console/test_pages.py": 2,
    "tests/http/console/test_served.py": 8,
    "tests/http/console/test_very_many.py": NONE,
    "tests/http/rest/test_pymqrest.py": NONE,
    "tests/http/rest/test_schemathesis.py": NONE,
    "tests/security/": 3,
    "tests/security/network/": 4,
    "tests/security/test_attack.py::test_x8_1_and_x8_2_an_attack_comes_to_nothing_and_others_put_get_and_log_in": NONE,
    "tests/security/test_canaries.py": NONE,
    "tests/security/test_cases.py": WHOLE,
    "tests/security/test_explain.py::test_x9_1_what_is_explained_is_what_happens_and_is_granted_alone": 10,
    "tests/server/": 3,
    "tests/server/security/test_certificates.py::test_x3_1_nor_of_a_hundred_lines_at_fifty_changes": NONE,
    "tests/server/security/test_reloads.py::test_x3_1_nothing_is_lost_while_certificates_change_under_load": NONE,
    "tests/server/test_ended_lines.py": 6,
    "tests/sharing/": 10,
    "tests/sharing/test_cases.py": WHOLE,
    "tests/sharing/test_chaos.py": NONE,
    "tests/sharing/test_conformance.py": WHOLE,
    "tests/sharing/test_handle_rows.py": 20,
    "tests/sharing/test_holding_model.py": 3,
    "tests/sharing/test_holding_model.py::test_some_thousand_schedules_lose_double_tear_and_strand_nothing": WHOLE,
    "tests/sharing/test_kept_groups.py": WHOLE,
    "tests/sharing/test_kept_groups.py::test_a_group_is_lent_on_its_first_day_only": 4,
    "tests/sharing/test_killed_upgrade.py": NONE,
    "tests/simulation/": 12,
    "tests/spark/": NONE,
    "tests/storage/": 3,
    "tests/storage/test_backup.py": 6,
    "tests/storage/test_creation.py": 4,
    "tests/storage/test_recover.py": 3,
    "tests/storage/test_recover.py::test_a_recovery_that_fails_asks_for_room_where_that_is_what_it_lacks": WHOLE,
    "tests/storage/test_upgrade.py": 8,
    "tests/storage/test_verify.py": 4,
    "tests/storage/test_verify.py::test_a_definition_whose_number_is_none_is_passed_over": WHOLE,
    "tests/storage/test_verify.py::test_rows_in_a_wrong_order_do_not_lead_back_to_what_was_read": WHOLE,
    "tests/test_scheduling.py::test_a_run_ends_after_three_of_its_processes_have_died": NONE,
    "tests/transactions/test_demo.py::test_d8_1_and_in_postgresql_where_nothing_is_left_behind": 8,
    "tests/transactions/test_demo.py::test_d8_1_each_order_is_a_row_and_two_messages_in_sqlite_whoever_dies": 4,
    "tests/transactions/test_demo.py::test_d8_1_sixty_die_as_the_command_has_it": NONE,
    "tests/transactions/test_demo.py::test_d8_2_without_a_guard_the_account_is_not_exact": 4,
    "tests/transactions/test_frozen.py": 4,
    "tests/transactions/test_groups_and_periodic.py": 8,
    "tests/transactions/test_handlers.py": 6,
    "tests/transactions/test_killed_daemon.py": 2,
    "tests/transactions/test_lost_owners.py": 6,
    "tests/transactions/test_page.py": 2,
    "tests/transactions/test_postgresql_away.py": 8,
    "tests/transactions/test_producers.py": 2,
    "tests/transactions/test_routes.py": 2,
    "tests/triggers/": 3,
    "tests/triggers/test_trigger_generations.py::test_200_posts_a_second_for_20_seconds_start_as_many_handlers": 4,
    "tests/triggers/test_triggering_end_to_end.py::test_200_puts_a_second_for_20_seconds_are_each_handled_once": 8,
    "tests/triggers/test_triggering_in_real_time.py": NONE,
}  # fmt: skip
"""Beginnings of the names of tests, and of how many the quick tier has one. Of several that fit the longest holds."""

_ASKED: Final = re.compile(r"(?<!not )\b(slow|benchmark|spark)\b")
_CONFORMANCE: Final = "tests/conformance/"
_ALWAYS: Final = ("embedded", "memory")


def is_full(config: pytest.Config) -> bool:
    """True if all tests are run, or by their marker some that are in no quick run."""
    return bool(config.option.full or _ASKED.search(config.option.markexpr))


def is_quick(config: pytest.Config) -> bool:
    """True if something may be left out."""
    return not (is_full(config) or all(".py" in each for each in config.args))


def settle_rotation() -> str:
    """The rotation of this run, for all its processes."""
    return os.environ.setdefault(ROTATION, _commit())


def _commit() -> str:
    """The commit that is checked out; outside a repository always the same."""
    try:
        reported = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return reported.stdout.strip()


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """True if nothing below this path is in the run, so that it need not even be imported."""
    if is_full(config):
        return False
    name = path.relative_to(ROOT).as_posix() + "/" * path.is_dir() if path.is_relative_to(ROOT) else ""
    return PARTS.get(name) == NONE and not any(path in (each, *each.parents) for each in _named(config))


def left_to_full(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that this run leaves to the full one."""
    if is_full(config):
        return []
    rotation = os.environ[ROTATION]
    named = _named(config)
    mine = [item for item in items if item.path not in named]
    return [*_other_systems(mine, rotation), *(item for item in mine if not _is_drawn(item, rotation))]


def _named(config: pytest.Config) -> frozenset[Path]:
    """The files that the command line names, or tests of."""
    paths = (config.invocation_params.dir / each.partition("::")[0] for each in config.args)
    return frozenset(path.resolve() for path in paths if path.suffix == ".py")


def _is_drawn(item: pytest.Item, rotation: str) -> bool:
    if item.get_closest_marker("spark"):
        return False
    parts = PARTS[found] if (found := max(filter(item.nodeid.startswith, PARTS), key=len, default="")) else WHOLE
    return parts != NONE and _hash(item.nodeid, rotation) % parts == 0


def _other_systems(items: Iterable[pytest.Item], rotation: str) -> list[pytest.Item]:
    """Return of each scenario the runs on other systems than the first, but for one of them at every second commit. Of
    a table each row is run once: on the first system, or where it is not run there, on one of the others.
    """
    texts: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        here = item.nodeid.startswith(_CONFORMANCE) and system_of(item) is not None
        if here and not item.get_closest_marker("slow"):
            texts[item.nodeid.partition("[")[0]][row_of(item)].append(item)
    left: list[pytest.Item] = []
    for text, rows in texts.items():
        for row, runs in rows.items():
            others = [item for item in runs if system_of(item) != _ALWAYS]
            there = len(others) < len(runs)  # on the first system
            once = len(rows) >= ROWS_IN_HALF and there
            drawn = others * (not once) + [None] * (len(others) if there else 0)
            chosen = drawn[_hash(f"{text}{row}", rotation) % len(drawn)] if drawn else None
            left += [item for item in others if item is not chosen]
    return left


def _hash(name: str, rotation: str) -> int:
    return int.from_bytes(sha256(f"{rotation} {name}".encode()).digest()[:8])
