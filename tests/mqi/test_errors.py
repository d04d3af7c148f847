"""MQError: what it carries, how it prints, and that it survives pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from broker.mqi.errors import CommandFailedError, MQError
from broker.mqi.reasons import MQCC, MQRC
from broker.mqi.replies import CommandReply
from broker.mqi.structures import ResponseRecord


def attributes(error: MQError) -> tuple[object, ...]:
    return (error.reason, error.detail, error.completion, error.message, *error.records)


def test_an_error_prints_its_reason_its_number_and_its_detail() -> None:
    error = MQError(MQRC.Q_FULL, "ORDERS holds 5000 messages, its maximum depth")
    assert str(error) == "MQRC_Q_FULL (2053): ORDERS holds 5000 messages, its maximum depth"


def test_without_a_detail_there_is_no_colon() -> None:
    assert str(MQError(MQRC.NO_MSG_AVAILABLE)) == "MQRC_NO_MSG_AVAILABLE (2033)"


def test_an_error_is_a_failure_unless_it_says_otherwise() -> None:
    assert attributes(MQError(MQRC.Q_FULL)) == (MQRC.Q_FULL, "", MQCC.FAILED, None)


def test_a_warning_that_left_the_work_undone_carries_what_there_is() -> None:
    error = MQError(MQRC.TRUNCATED_MSG_FAILED, "100 of 200 bytes", MQCC.WARNING, message=b"part")
    assert attributes(error) == (2080, "100 of 200 bytes", MQCC.WARNING, b"part")


def test_a_known_number_becomes_its_reason() -> None:
    assert MQError(2053).reason is MQRC.Q_FULL


def test_a_reason_from_a_newer_queue_manager_stays_a_number() -> None:
    error = MQError(2999, "something new")
    assert (type(error.reason), error.reason) == (int, 2999)
    assert str(error) == "2999: something new"
    assert str(MQError(2999)) == "2999"


@pytest.mark.parametrize(
    "error",
    [
        MQError(MQRC.Q_FULL),
        MQError(2999, "something new"),
        MQError(MQRC.TRUNCATED_MSG_FAILED, "100 of 200 bytes", MQCC.WARNING, message=b"part"),
        MQError(MQRC.MULTIPLE_REASONS, records=(ResponseRecord(MQCC.FAILED, MQRC.Q_FULL),)),
    ],
    ids=str,
)
def test_an_error_survives_pickling_and_copying(error: MQError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert attributes(twin) == attributes(error)
        assert str(twin) == str(error)


FAILED = CommandFailedError([CommandReply(code="A", text="A: done"), CommandReply(code="B", text="B: no", ok=False)])


def test_a_command_that_failed_says_what_was_done_before_it() -> None:
    assert attributes(FAILED) == (3008, FAILED.detail, MQCC.FAILED, None)
    assert (
        str(FAILED) == "MQRCCF_COMMAND_FAILED (3008): command 2 failed, the one before it took effect and stays: B: no"
    )
    assert str(CommandFailedError([FAILED.reply])).endswith("command 1 failed, nothing took effect: B: no")


def test_a_command_that_failed_survives_pickling_and_copying() -> None:
    for twin in (pickle.loads(pickle.dumps(FAILED)), copy.copy(FAILED)):
        assert type(twin) is CommandFailedError
        assert (twin.replies, twin.reply, str(twin)) == (FAILED.replies, FAILED.replies[1], str(FAILED))
