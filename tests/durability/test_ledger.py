"""The ledger finds what a queue manager could do wrong, and accepts what it may do."""

from __future__ import annotations

import pytest

from tests.durability.ledger import ComplaintError, Found, Ledger, Unit
from tests.durability.numbered import body, key_of


def put(ledger: Ledger, *keys: str, queue: str = "Q") -> Unit:
    """A unit that puts these messages; nothing is known of its outcome yet."""
    unit = ledger.begin()
    for key in keys:
        ledger.put(unit, queue, key)
    unit.asked = True
    return unit


def get(ledger: Ledger, *keys: str, queue: str = "Q") -> Unit:
    """A unit that got these messages; nothing is known of its outcome yet."""
    unit = ledger.begin()
    for key in keys:
        ledger.got(unit, queue, key)
    unit.asked = True
    return unit


def there(*keys: str, count: int = 0) -> dict[str, list[Found]]:
    """These messages are on Q."""
    return {"Q": [Found(key, 0, count) for key in keys]}


@pytest.fixture
def ledger() -> Ledger:
    """A and B have put A.1, B.1 and B.2 on Q."""
    ledger = Ledger(hardened=["Q"])
    ledger.done(put(ledger, "A.1"))
    ledger.done(put(ledger, "B.1", "B.2"))
    return ledger


def test_what_was_acknowledged_is_there(ledger: Ledger) -> None:
    ledger.reconcile(there("B.1", "A.1", "B.2"))


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (there("A.1", "B.1"), r"Q lacks 1 messages that must be there: B\.2"),
        (there("A.1", "B.1", "B.2", "B.2"), r"B\.2 is there 2 times"),
        (there("A.1", "B.2", "B.1"), r"B\.1 of priority 0 is out of its order"),
        (there("A.1", "B.1", "B.2", "C.1"), r"C\.1 is on Q, and belongs to a unit that is undone"),
        ({"R": there("A.1", "B.1", "B.2")["Q"]}, r"Q lacks 3"),
    ],
)
def test_what_is_lost_doubled_or_moved_is_found(ledger: Ledger, found: dict[str, list[Found]], complaint: str) -> None:
    with pytest.raises(ComplaintError, match=complaint):
        ledger.reconcile(found)


def test_what_a_unit_has_got_for_good_does_not_come_again(ledger: Ledger) -> None:
    ledger.done(get(ledger, "B.1"))
    with pytest.raises(ComplaintError, match=r"B\.1 came again"):
        get(ledger, "B.1")
    with pytest.raises(ComplaintError, match=r"B\.1 is on Q, and was got for good"):
        ledger.reconcile(there("A.1", "B.1", "B.2"))


def test_a_message_is_committed_to_one_getter(ledger: Ledger) -> None:
    first, second = get(ledger, "B.1"), get(ledger, "B.1")
    ledger.done(first)
    with pytest.raises(ComplaintError, match="two getters"):
        ledger.done(second)


@pytest.mark.parametrize("found", [there("A.1", "B.1", "B.2"), there("A.1", "B.1", "B.2", "C.1", "C.2")])
def test_a_unit_of_unknown_outcome_is_there_or_not(ledger: Ledger, found: dict[str, list[Found]]) -> None:
    put(ledger, "C.1", "C.2")
    ledger.reconcile(found)
    assert ledger.figures.unknown_done + ledger.figures.unknown_undone == 1


def test_a_unit_that_is_there_in_part_is_found(ledger: Ledger) -> None:
    put(ledger, "C.1", "C.2")
    with pytest.raises(ComplaintError, match="in part"):
        ledger.reconcile(there("A.1", "B.1", "B.2", "C.1"))


def test_a_unit_whose_gets_are_done_and_its_puts_are_not_is_found(ledger: Ledger) -> None:
    unit = get(ledger, "B.1")
    ledger.put(unit, "Q", "C.1")
    with pytest.raises(ComplaintError, match="in part"):
        ledger.reconcile(there("A.1", "B.2"))


def test_a_unit_whose_message_was_got_by_another_is_done_as_a_whole(ledger: Ledger) -> None:
    put(ledger, "C.1", "C.2")
    ledger.done(get(ledger, "C.1"))
    with pytest.raises(ComplaintError, match="in part"):
        ledger.reconcile(there("A.1", "B.1", "B.2"))


def test_a_unit_whose_commit_was_not_asked_for_leaves_nothing(ledger: Ledger) -> None:
    put(ledger, "C.1").asked = False
    with pytest.raises(ComplaintError, match=r"C\.1 is on Q"):
        ledger.reconcile(there("A.1", "B.1", "B.2", "C.1"))


def test_what_was_refused_is_not_there(ledger: Ledger) -> None:
    ledger.refused(put(ledger, "C.1"))
    with pytest.raises(ComplaintError, match=r"C\.1 is on Q"):
        ledger.reconcile(there("A.1", "B.1", "B.2", "C.1"))


def test_what_is_not_committed_is_not_seen(ledger: Ledger) -> None:
    unit = put(ledger, "C.1")
    get(ledger, "C.1")
    with pytest.raises(ComplaintError, match=r"C\.1 was seen"):
        ledger.backed_out(unit)


def test_a_get_outside_syncpoint_without_an_answer_may_take_one_message(ledger: Ledger) -> None:
    ledger.unanswered_get("Q")
    ledger.reconcile(there("A.1", "B.2"))
    assert ledger.figures.lost_unseen == 1
    with pytest.raises(ComplaintError, match="lacks 1"):
        ledger.reconcile(there("A.1"))


def test_backout_counts_are_raised_by_backouts_and_on_hardened_queues_by_crashes(ledger: Ledger) -> None:
    ledger.backed_out(get(ledger, "B.1"))
    get(ledger, "B.1").asked = False
    with pytest.raises(ComplaintError, match=r"B\.1 on Q has BackoutCount 1, and was backed out 2 times"):
        ledger.reconcile({"Q": [Found("A.1", 0, 0), Found("B.1", 0, 1), Found("B.2", 0, 0)]})


def test_no_two_messages_have_one_msg_id(ledger: Ledger) -> None:
    ledger.named(b"1")
    with pytest.raises(ComplaintError, match="MsgId"):
        ledger.named(b"1")


def test_a_body_tells_its_key_and_whether_it_is_whole() -> None:
    data = body("A.1", 100)
    assert (len(data), key_of(data)) == (100, "A.1")
    for harmed in (data[:-1], data.replace(b"|", b"!", 1)):
        with pytest.raises(AssertionError, match="not what was put"):
            key_of(harmed)
