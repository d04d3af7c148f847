"""Answers and errors come out of a frame as they went in."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from broker.interface.answers import Connected, GetAnswer
from broker.mqi import MQRC
from broker.mqi.replies import joined
from broker.wire import Verb, WireError, answers
from broker.wire.verbs import CALLS, result
from tests.wire.ends import Pair, fields, received
from tests.wire.samples import ERRORS, LIST_RESULTS, PARTS, RESULTS, STOPPED, TERMED_RESULTS, WARNED

if TYPE_CHECKING:
    from broker.mqi import MQError

ANSWERED = CALLS - {Verb.TRIGGER_DONE, Verb.TRIGGER_RETURN, Verb.GIVE_BACK}


def across(verb: Verb, *items: object) -> list[Any]:
    pair = Pair()
    (frame,) = received(pair.client, pair.server.send(verb, 1, 1, *items))
    return frame


def test_every_call_has_a_sample() -> None:
    assert RESULTS.keys() == ANSWERED


@pytest.mark.parametrize("verb", RESULTS.keys() - {Verb.DELIVERY_CONNECT})
def test_a_result_comes_out_as_it_went_in(verb: Verb) -> None:
    frame = across(Verb.ANSWER, *fields(verb, RESULTS[verb]))
    found = result(verb, frame)
    assert found == RESULTS[verb]
    assert type(found) is type(RESULTS[verb])


@pytest.mark.parametrize("verb", LIST_RESULTS)
def test_what_became_of_a_distribution_list_comes_out_as_it_went_in(verb: Verb) -> None:
    found = result(verb, across(Verb.ANSWER, *fields(verb, LIST_RESULTS[verb])))
    assert found == LIST_RESULTS[verb]
    assert type(found.distribution.records[0].reason) is MQRC


def test_a_connection_of_a_delivery_is_answered_with_the_name_of_its_queue_manager() -> None:
    items = fields(Verb.DELIVERY_CONNECT, RESULTS[Verb.DELIVERY_CONNECT])
    assert result(Verb.DELIVERY_CONNECT, across(Verb.ANSWER, *items)) == "QM1"


@pytest.mark.parametrize("verb", TERMED_RESULTS)
def test_what_became_of_a_delayed_message_or_a_duplicate_comes_out_as_it_went_in(verb: Verb) -> None:
    frame = across(Verb.ANSWER, *fields(verb, TERMED_RESULTS[verb]))
    assert result(verb, frame) == TERMED_RESULTS[verb]


def test_a_put_with_an_item_that_no_put_is_answered_with_breaks_the_line() -> None:
    plain = fields(Verb.PUT, RESULTS[Verb.PUT])
    for more in ([5, 5], [5, 5, 5, 5]):
        with pytest.raises(WireError, match="the answer to PUT makes no sense"):
            result(Verb.PUT, across(Verb.ANSWER, *plain, *more))


def test_warnings_of_commands_come_out_as_they_went_in() -> None:
    assert result(Verb.MQSC, across(Verb.ANSWER, *fields(Verb.MQSC, WARNED))) == WARNED


def test_a_batch_that_was_stopped_comes_out_as_it_went_in() -> None:
    found = result(Verb.PUT_MANY, across(Verb.ANSWER, *fields(Verb.PUT_MANY, STOPPED)))
    assert found.placed == STOPPED.placed
    assert str(found.error) == str(STOPPED.error)


def test_parts_of_command_replies_come_out_as_they_went_in() -> None:
    assert answers.replies(across(Verb.REPLIES, *answers.reply_parts(PARTS))) == PARTS
    assert answers.replies(across(Verb.ANSWER, *answers.reply_parts([]))) == []
    together = [PARTS[1], PARTS[0]]
    (reply,) = answers.replies(across(Verb.REPLIES, *answers.reply_parts(together)))
    assert (reply.continues, reply.reply) == (False, joined([part.reply for part in together]))
    with pytest.raises(WireError, match="the replies to MQSC make no sense"):
        answers.replies(across(Verb.REPLIES, [], False))


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_an_error_comes_out_as_it_went_in(error: MQError) -> None:
    found = answers.error(across(Verb.FAILED, *answers.error_fields(error)))
    assert (found.reason, found.completion, found.detail, found.message, found.records) == (
        error.reason,
        error.completion,
        error.detail,
        error.message,
        error.records,
    )
    assert found.message is None or type(found.message) is GetAnswer


@pytest.mark.parametrize("verb", RESULTS)
@pytest.mark.parametrize("items", [[], [None], [0, 0], [[[1]]], [{}] * 20, [b"bytes"]])
def test_an_answer_that_makes_no_sense_is_a_wire_error_or_nothing_worse(verb: Verb, items: list[Any]) -> None:
    with suppress(WireError):
        result(verb, [Verb.ANSWER, 1, 1, *items])


@pytest.mark.parametrize(
    "items",
    [
        [],
        [2053, 2, "", None, 1],
        [2136, 2, "", None, [[2]]],
        [2136, 2, "", None, [], 0],
        ["a", 2, "", None],
        [2053, 9, "", None],
        [2080, 2, "", [1]],
    ],
)
def test_an_error_that_makes_no_sense_is_a_wire_error(items: list[Any]) -> None:
    with pytest.raises(WireError, match="makes no sense"):
        answers.error([Verb.FAILED, 1, 1, *items])


def test_the_answer_to_a_connect_may_say_when_the_proof_ends_and_later_more() -> None:
    assert fields(Verb.CONNECT, Connected("QM1")) == ("QM1",)
    assert result(Verb.CONNECT, across(Verb.ANSWER, "QM1", 3600.0)) == Connected("QM1", 3600.0)
    instance = "5f2b7a0e-6f0c-4a55-9d0b-0a4f6d1c7e21"
    assert fields(Verb.CONNECT, Connected("QM1", instance=instance)) == ("QM1", inf, instance)
    assert result(Verb.CONNECT, across(Verb.ANSWER, "QM1", inf, instance)) == Connected("QM1", instance=instance)
    assert result(Verb.CONNECT, across(Verb.ANSWER, "QM1", 9.0, instance, 1)) == Connected("QM1", 9.0, instance)
