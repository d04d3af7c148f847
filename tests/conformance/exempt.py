"""The texts that are not run on shared queues: those that differ there by the rules, and those about private things."""

from __future__ import annotations

from typing import Final

_KEPT: Final = "nonpersistent messages of shared queues survive the members (queue-sharing 5)"
_NO_TURN: Final = "a decision ends what a reader of the generation before it has begun (queue-sharing 10.3.9)"
_NO_JOURNAL: Final = "shared messages are rows of the database, not of the member's own log (queue-sharing 1)"
_DYNAMIC: Final = "temporary and permanent dynamic queues are private (queue-sharing 2)"
_AT_ONCE: Final = "a batch for shared queues is decided by one transaction, in the database (queue-sharing 10.3.4)"
_COMMITTED: Final = "on shared queues only what is committed triggers (queue-sharing 3)"

EXEMPT: Final = {
    "test_t10_7_persistent_messages_are_kept": _KEPT,
    "test_t10_7_an_orderly_end_keeps_nonpersistent_messages_of_the_high_class": _KEPT,
    "test_trigger_counts_are_rebuilt": _KEPT,
    "test_a_batch_outside_syncpoint_is_one_unit_a_call": _NO_JOURNAL,
    "test_outside_syncpoint_a_batch_is_removed_by_one_unit": _NO_JOURNAL,
    "test_depth_is_off_before_the_commit_and_after_the_backout": _COMMITTED,
    "test_first_is_written_although_its_unit_is_backed_out": _COMMITTED,
    "test_c9_a_trigger_message_that_was_promised_is_written": _COMMITTED,
    "test_a_decision_waits_for_the_call_that_is_under_way": _NO_TURN,
    "test_what_is_prepared_or_claimed_by_another_is_no_lag": _NO_JOURNAL,
    "test_k8_a_dynamic_queue_with_prepared_messages_is_not_deleted_by_its_close": _DYNAMIC,
    "test_a_unit_whose_batch_is_being_decided_is_left_to_that": _AT_ONCE,
}
"""Texts that differ, and the rule that makes them."""

EXEMPT_MAX: Final = 15

PRIVATE: Final = {
    "test_argument_types": "what is wrong with the type of an argument is found before there is a queue",
    "test_both_doors": "it compares the ways to reach a queue manager",
    "test_external_units": "shared queues have no part in units that another database decides (transactions rule 2.3)",
    "test_misuse": "it has systems of its own",
    "test_names_dynamic": _DYNAMIC,
    "test_names_remote": "queues of other queue managers, and transmission queues",
}
"""Files that have nothing which could be shared."""


def told_of_shared_queues(file: str, test: str) -> bool:
    """True if a text of this file (without its suffix) is one of those that are run on shared queues."""
    return file not in PRIVATE and test not in EXEMPT
