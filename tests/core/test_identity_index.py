"""IdentityIndex against a list of pairs."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.queues.shelf.identity_index import IdentityIndex
from broker.core.queues.shelf.sorted_keys import LOAD
from broker.mqi.structures import NO_ID
from tests.core.world import name_of

IDENTITIES = [NO_ID, name_of("X"), name_of("Y")]
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "discard"]), st.sampled_from(IDENTITIES), st.integers(0, 12)), max_size=60
)


def compare(index: IdentityIndex, model: dict[int, bytes]) -> None:
    """The index holds the model, and finds every message after any other."""
    index.check_invariants(model)
    for identity in IDENTITIES[1:]:
        for key in (-1, *model):
            carriers = sorted(other for other in model if model[other] == identity and other > key)
            assert list(index.after(identity, key)) == carriers
        assert index.count(identity) == list(model.values()).count(identity)
    assert list(index.after(NO_ID, -1)) == []
    assert list(index.after(name_of("unknown"), -1)) == []


@settings(derandomize=True, deadline=None)
@given(steps=STEPS)
def test_it_finds_the_messages_that_carry_an_identifier_in_queue_order(steps: list[tuple[str, bytes, int]]) -> None:
    index = IdentityIndex()
    model: dict[int, bytes] = {}
    for step, identity, key in steps:
        if step == "add" and key not in model:
            index.add(identity, key)
            model[key] = identity
        elif step == "discard":
            index.discard(identity, key)
            if model.get(key) == identity:
                del model[key]
        compare(index, model)


def test_thousands_of_messages_may_carry_one_identifier() -> None:
    index = IdentityIndex()
    keys = random.Random(1).sample(range(100_000), 5 * LOAD)
    for key in keys:
        index.add(name_of("X"), key)
    for key in keys[: 2 * LOAD]:
        index.discard(name_of("X"), key)
    model = dict.fromkeys(keys[2 * LOAD :], name_of("X"))
    index.check_invariants(model)
    assert list(index.after(name_of("X"), 50_000)) == sorted(key for key in model if key > 50_000)


def test_an_identifier_that_no_message_carries_any_more_leaves_nothing_behind() -> None:
    index = IdentityIndex()
    for key in (1, 2):
        index.add(name_of("X"), key)
    for key in (2, 1):
        index.discard(name_of("X"), key)
    index.check_invariants({})
    assert list(index.after(name_of("X"), 0)) == []
