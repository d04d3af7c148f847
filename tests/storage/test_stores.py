"""What every store does: the definition of a store, run on each of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from broker.storage import log_store, memory
from broker.storage.memory import MemoryStore
from broker.storage.store import DataDamagedError, Numbering, ObjectRow, Rows, Store, StoreFailedError

from .samples import ARCHIVE, ORDERS, SHIPPING, Contents, contents, key, message, reopened, step

SIZES = [0, 1, 1023, 1024, 1025, 4096, 1_000_000]
EMPTY = Contents([], [], 0)


async def test_a_new_store_is_empty(store: Store) -> None:
    assert await contents(store) == EMPTY


async def test_what_was_written_is_there_at_the_next_start(store: Store) -> None:
    messages = [message(1), message(2, b""), message(5, b"x" * 5000)]
    await store.write(Rows(inserts=messages, objects=[ORDERS, SHIPPING], high_water=99))
    assert await reopened(store) == Contents(messages, [SHIPPING, ORDERS], 99)


async def test_what_was_written_can_be_loaded_without_a_restart(store: Store) -> None:
    await store.write(Rows(inserts=[message(1)]))
    assert await contents(store) == Contents([message(1)], [], 0)


async def test_an_empty_batch_changes_nothing(store: Store) -> None:
    await store.write(Rows(inserts=[message(1)]))
    await store.write(Rows())
    assert (await reopened(store)).messages == [message(1)]


async def test_every_field_of_a_message_survives(store: Store) -> None:
    row = message(2**62, b"\0\xff")._replace(queue=2**40, rank=9, descriptor=b"", backout_count=3, hardened=1)
    await store.write(Rows(inserts=[row]))
    assert (await reopened(store)).messages == [row]


async def test_messages_are_loaded_in_order_of_id_whatever_the_order_of_writing(store: Store) -> None:
    await store.write(Rows(inserts=[message(30), message(10)]))
    await store.write(Rows(inserts=[message(20)]))
    assert [row.id for row in (await reopened(store)).messages] == [10, 20, 30]


async def test_messages_are_loaded_in_chunks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOAD_CHUNK", 2)
    monkeypatch.setattr(log_store, "LOAD_CHUNK", 2)
    await store.write(Rows(inserts=[message(id) for id in range(1, 6)]))
    await store.close()
    await store.open()
    chunks = [[row.id for row in chunk] async for chunk in store.load_messages()]
    assert chunks == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("size", SIZES)
async def test_data_of_any_size_is_read_back(store: Store, size: int) -> None:
    await store.write(Rows(inserts=[message(1, b"d" * size), message(2, b"other")]))
    assert await store.read_data([1]) == {1: b"d" * size}


async def test_data_is_read_for_many_messages_at_once(store: Store) -> None:
    await store.write(Rows(inserts=[message(id, b"%d" % id) for id in range(1, 100)]))
    assert await store.read_data(range(1, 100)) == {id: b"%d" % id for id in range(1, 100)}


@pytest.mark.parametrize("data", [b"small", b"large" * 1000])
async def test_data_of_a_message_that_is_gone_cannot_be_read(store: Store, data: bytes) -> None:
    await store.write(Rows(inserts=[message(1, data), message(2)]))
    await store.write(Rows(removals=[1]))
    with pytest.raises(DataDamagedError, match="the data of message 1 is") as damage:
        await store.read_data([2, 1])
    assert damage.value.ids == {1}


async def test_a_removed_message_does_not_come_back(store: Store) -> None:
    await store.write(Rows(inserts=[message(id, b"x" * 1000 * id) for id in (1, 2, 3, 4)]))
    await store.write(Rows(removals=[4, 1]))
    assert [row.id for row in (await reopened(store)).messages] == [2, 3]


async def test_a_mark_is_reported_at_the_next_start(store: Store) -> None:
    await store.write(Rows(inserts=[message(1), message(2)]))
    await store.write(Rows(hardened=[2]))
    assert (await reopened(store)).messages == [message(1), message(2)._replace(hardened=1)]


async def test_a_backout_sets_the_count_and_clears_the_mark(store: Store) -> None:
    await store.write(Rows(inserts=[message(1)]))
    await store.write(Rows(hardened=[1]))
    await store.write(Rows(backouts=[(1, 2)]))
    assert (await reopened(store)).messages == [message(1)._replace(backout_count=2)]


async def test_a_message_may_be_written_marked_and_backed_out_in_one_batch(store: Store) -> None:
    await store.write(Rows(inserts=[message(1), message(2)], hardened=[1, 2], backouts=[(1, 1)], removals=[2]))
    assert (await reopened(store)).messages == [message(1)._replace(backout_count=1)]


async def test_a_nonpersistent_message_is_given_at_one_start_only(store: Store) -> None:
    kept, fleeting = message(1), [message(2, persistent=0), message(3, b"x" * 2000, persistent=0)]
    await store.write(Rows(inserts=[kept, *fleeting]))
    assert (await reopened(store)).messages == [kept, *fleeting]
    assert (await reopened(store)).messages == [kept]


async def test_a_load_that_is_broken_off_forgets_nothing(store: Store) -> None:
    await store.write(Rows(inserts=[message(1, persistent=0)]))
    async for _ in store.load_messages():
        break
    assert (await reopened(store)).messages == [message(1, persistent=0)]


# Consumers and prepared units


async def test_messages_are_held_in_the_order_of_their_run(store: Store) -> None:
    rows = [message(id) for id in range(1, 5)]
    await store.write(Rows(inserts=rows))
    await store.write(Rows(held=[Numbering(20, 7, [3, 1]), Numbering(21, 1, [4])]))
    assert (await reopened(store)).messages == [
        rows[0]._replace(holder=20, sequence=8),
        rows[1],
        rows[2]._replace(holder=20, sequence=7),
        rows[3]._replace(holder=21, sequence=1),
    ]


async def test_a_message_comes_with_who_holds_it_or_is_held_in_the_same_batch(store: Store) -> None:
    """A stage, and a claim of messages that had no rows yet."""
    staged = message(1)._replace(holder=21, sequence=1)
    await store.write(Rows(inserts=[staged, message(2, persistent=0)], held=[Numbering(20, 5, [2])]))
    claimed = message(2, persistent=0)._replace(holder=20, sequence=5)
    assert (await reopened(store)).messages == [staged, claimed]


async def test_a_backout_releases_a_message_and_leaves_it_its_place(store: Store) -> None:
    await store.write(Rows(inserts=[message(1)], held=[Numbering(21, 1, [1])]))
    await store.write(Rows(placed=[Numbering(0, 50, [1])]))
    assert (await reopened(store)).messages == [message(1)._replace(place=50)]
    await store.write(Rows(held=[Numbering(20, 5, [1])]))
    assert (await reopened(store)).messages == [message(1)._replace(place=50, holder=20, sequence=5)]
    await store.write(Rows(backouts=[(1, 3)]))
    assert (await reopened(store)).messages == [message(1)._replace(place=50, backout_count=3)]


async def test_a_mark_leaves_a_message_to_who_holds_it(store: Store) -> None:
    await store.write(Rows(inserts=[message(1)], held=[Numbering(20, 5, [1])]))
    await store.write(Rows(hardened=[1]))
    assert (await reopened(store)).messages == [message(1)._replace(holder=20, sequence=5, hardened=1)]


@pytest.mark.parametrize("data", [b"small", b"large" * 1000])
async def test_a_nonpersistent_message_stays_while_somebody_holds_it(store: Store, data: bytes) -> None:
    """Log case 55: given at every start, with its data; gone when it is removed, as it is when it is released."""
    held = message(1, data, persistent=0)._replace(holder=20, sequence=5)
    await store.write(Rows(inserts=[held, message(2, persistent=0)]))
    assert (await reopened(store)).messages == [held, message(2, persistent=0)]
    for _ in range(2):
        assert (await reopened(store)).messages == [held]
    await store.write(Rows(removals=[1]))
    assert (await reopened(store)).messages == []
    again = held._replace(holder=21, sequence=1)
    await store.write(Rows(inserts=[again]))
    assert (await reopened(store)).messages == [again]


async def test_what_a_handler_leaves_is_there_at_the_next_start_and_clears_the_mark(store: Store) -> None:
    await store.write(Rows(inserts=[message(1), message(2)._replace(handling=b"delayed"), message(3)]))
    await store.write(Rows(marked=[(1, 3), (3, 2)]))
    await store.write(Rows(handled=[(1, 4, b"failed"), (2, 0, b"")]))
    expected = [message(1)._replace(backout_count=4, handling=b"failed"), message(2), message(3)._replace(hardened=2)]
    for _ in range(2):  # the second start finds the snapshot alone
        assert (await reopened(store)).messages == expected


async def test_a_delivery_that_ends_in_the_batch_of_its_mark_leaves_none(store: Store) -> None:
    """A mark is not waited for: it may be on its way still when the message goes back."""
    await store.write(Rows(inserts=[message(1), message(2), message(3)]))
    rows = Rows(marked=[(1, 2), (2, 3), (3, 2)])
    rows.extend(Rows(backouts=[(1, 0)], handled=[(2, 1, b"failed")], removals=[3]))
    await store.write(rows)
    expected = [message(1), message(2)._replace(backout_count=1, handling=b"failed")]
    assert (await reopened(store)).messages == expected


async def test_a_backout_leaves_what_a_handler_has_left(store: Store) -> None:
    """Another program gets the message, and backs out."""
    await store.write(Rows(inserts=[message(1)]))
    await store.write(Rows(handled=[(1, 1, b"failed")]))
    await store.write(Rows(backouts=[(1, 2)]))
    assert (await reopened(store)).messages == [message(1)._replace(backout_count=2, handling=b"failed")]


async def test_a_key_outlives_its_message_until_it_is_freed(store: Store) -> None:
    await store.write(Rows(inserts=[message(1), message(2)], keys=[key(1), key(2, queue=9, until=4e9)]))
    await store.write(Rows(removals=[1, 2]))
    for _ in range(2):
        assert await reopened(store) == Contents([], [], 0, (key(1), key(2, queue=9, until=4e9)))
    await store.write(Rows(freed=[key(1)[:2], key(5, b"never there")[:2]]))
    assert (await reopened(store)).keys == (key(2, queue=9, until=4e9),)


async def test_a_key_goes_from_one_message_to_another_in_one_batch(store: Store) -> None:
    """As a unit of work has it that removes the holder and puts again."""
    await store.write(Rows(inserts=[message(1)], keys=[key(1)]))
    await reopened(store)
    await store.write(Rows(inserts=[message(2)], removals=[1], keys=[key(2)], freed=[key(1)[:2]]))
    assert await reopened(store) == Contents([message(2)], [], 0, (key(2),))


async def test_steps_come_back_in_their_order_and_go_with_their_message(store: Store) -> None:
    """Log case 56."""
    await store.write(Rows(inserts=[message(1), message(2)]))
    await store.write(Rows(steps=[step(2, 2, "ship"), step(1), step(2, 1)]))
    assert (await reopened(store)).steps == (step(1), step(2, 1), step(2, 2, "ship"))
    await store.write(Rows(steps=[step(2, 3, "mail", b"")]))
    await store.write(Rows(inserts=[message(3)], steps=[step(3)], removals=[1]))
    left = (step(2, 1), step(2, 2, "ship"), step(2, 3, "mail", b""), step(3))
    for _ in range(2):
        assert (await reopened(store)).steps == left
    await store.write(Rows(steps=[step(2, 4)], removals=[2, 3]))
    assert await reopened(store) == Contents([], [], 0)


async def test_a_step_of_a_message_that_is_kept_once_goes_with_it(store: Store) -> None:
    """Of a nonpersistent message that an orderly stop keeps."""
    await store.write(Rows(inserts=[message(1, persistent=0)], steps=[step(1)]))
    assert (await reopened(store)).steps == (step(1),)
    assert await reopened(store) == Contents([], [], 0)


def test_a_step_needs_room() -> None:
    assert Rows(steps=[step(1)]).grows


async def test_keys_are_loaded_in_chunks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, log_store):
        monkeypatch.setattr(module, "LOAD_CHUNK", 3)
    keys = [key(id, b"%d" % id, queue=id % 2) for id in range(10, 20)]
    await store.write(Rows(keys=keys))
    await reopened(store)
    await store.write(Rows(keys=[key(20, b"new"), key(30, b"12", queue=0)]))
    chunks = [chunk async for chunk in store.load_keys()]
    assert max(map(len, chunks)) == 3
    found = sorted(each for chunk in chunks for each in chunk)
    assert found == sorted([*(each for each in keys if each.id != 12), key(20, b"new"), key(30, b"12", queue=0)])


def test_what_handlers_leave_and_keys_that_are_freed_need_no_room() -> None:
    """Journal rule 6: a handler fails, and a key is free again, though the disk is full."""
    assert not Rows(handled=[(1, 1, b"failed")], marked=[(2, 2)], freed=[key(1)[:2]]).grows


async def test_states_are_kept_as_objects_are_and_need_no_room(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS, ARCHIVE]))
    rows = Rows(states=[ARCHIVE._replace(attributes=b"next 5")])
    assert not rows.grows
    await store.write(rows)
    assert (await reopened(store)).objects == [ARCHIVE._replace(attributes=b"next 5"), ORDERS]
    await store.write(Rows(dropped=[(ARCHIVE.space, ARCHIVE.name)]))
    assert (await reopened(store)).objects == [ORDERS]


async def test_a_publication_of_any_length_has_its_places_in_order(store: Store) -> None:
    rows = [message(id)._replace(holder=21, sequence=id) for id in range(1, 2001)]
    await store.write(Rows(inserts=rows[:1500]))
    await store.write(Rows(inserts=rows[1500:]))
    await store.write(Rows(placed=[Numbering(0, 10_000, [*range(1001, 2001), *range(1, 1001)])]))
    found = (await reopened(store)).messages
    assert [row.place for row in found] == [*range(11_000, 12_000), *range(10_000, 11_000)]
    assert {(row.holder, row.sequence) for row in found} == {(0, 0)}


# Objects


async def test_an_object_stored_again_is_replaced(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS, SHIPPING]))
    altered = ORDERS._replace(kind="QALIAS", attributes=b"altered")
    await store.write(Rows(objects=[altered]))
    assert (await reopened(store)).objects == [SHIPPING, altered]


async def test_objects_of_one_name_in_two_spaces_are_two_objects(store: Store) -> None:
    process = ObjectRow("PROCESS", "ORDERS", 9, "PROCESS", b"")
    await store.write(Rows(objects=[ORDERS, process]))
    assert (await reopened(store)).objects == [process, ORDERS]


async def test_a_queue_is_deleted_with_the_messages_that_go_by_their_ids(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS, ORDERS._replace(name="OTHER", number=9)]))
    await store.write(Rows(inserts=[message(1), message(2, queue=9), message(3, b"x" * 5000)]))
    await store.write(Rows(inserts=[message(4)], removals=[1, 3, 4], dropped=[("QUEUE", "ORDERS")]))
    found = await reopened(store)
    assert [row.id for row in found.messages] == [2]
    assert [row.name for row in found.objects] == ["OTHER"]


async def test_deleting_an_object_removes_no_message(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS, SHIPPING], inserts=[message(1), message(2, queue=SHIPPING.number)]))
    await store.write(Rows(dropped=[("PROCESS", "SHIPPING"), ("QUEUE", "ORDERS")]))
    found = await reopened(store)
    assert (len(found.messages), found.objects) == (2, [])


async def test_deleting_an_object_that_is_not_there_is_harmless(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS], inserts=[message(1)]))
    await store.write(Rows(dropped=[("QUEUE", "ORDER")]))
    assert await reopened(store) == Contents([message(1)], [ORDERS], 0)


async def test_a_queue_deleted_and_defined_anew_in_one_batch_is_another_queue(store: Store) -> None:
    await store.write(Rows(objects=[ORDERS], inserts=[message(1)]))
    anew = ORDERS._replace(number=20)
    await store.write(Rows([message(2, queue=20)], removals=[1], dropped=[("QUEUE", "ORDERS")], objects=[anew]))
    assert await reopened(store) == Contents([message(2, queue=20)], [anew], 0)


async def test_the_high_water_mark_is_only_raised(store: Store) -> None:
    for mark in (100, 50, 0):
        await store.write(Rows(high_water=mark, inserts=[message(1000 + mark)]))
        assert (await reopened(store)).high_water == 100
    await store.write(Rows(high_water=101))
    assert (await reopened(store)).high_water == 101


NOT_WRITABLE = {
    "an id that is in the store": Rows(inserts=[message(2), message(1)]),
    "one id twice": Rows(inserts=[message(2), message(2)]),
    "a number that another object has": Rows(inserts=[message(2)], objects=[ORDERS._replace(name="OTHER")]),
    "one number twice": Rows(inserts=[message(2)], objects=[SHIPPING, SHIPPING._replace(name="OTHER")]),
}


@pytest.mark.parametrize("rows", NOT_WRITABLE.values(), ids=NOT_WRITABLE)
async def test_a_batch_with_an_error_is_not_written_at_all(rows: Rows) -> None:
    """In memory. On disk it is a mistake of the queue manager that a carry-over stops at."""
    store = MemoryStore()
    await store.write(Rows(inserts=[message(1)], objects=[ORDERS], high_water=5))
    rows = replace(rows, removals=[1], hardened=[1], high_water=9)
    with pytest.raises(StoreFailedError):
        await store.write(rows)
    assert await reopened(store) == Contents([message(1)], [ORDERS], 5)


@pytest.mark.parametrize("data", [b"small", b"large" * 1000])
async def test_a_batch_may_be_of_any_length(store: Store, data: bytes) -> None:
    messages = [message(id, data) for id in range(1, 200)]
    await store.write(Rows(inserts=messages))
    backouts = [(id, 1 + id % 2) for id in range(51, 150)]
    await store.write(Rows(removals=list(range(1, 51)), backouts=backouts, hardened=list(range(150, 200))))
    backed_out = [row._replace(backout_count=1 + row.id % 2) for row in messages[50:149]]
    assert (await reopened(store)).messages == [*backed_out, *(row._replace(hardened=1) for row in messages[149:])]


async def test_batches_are_answered_in_the_order_of_their_submission(store: Store) -> None:
    answered: list[int] = []
    last = asyncio.get_running_loop().create_future()

    def answer(number: int, error: Exception | None) -> None:
        assert error is None
        answered.append(number)

    for number in (3, 1, 2):
        if store.submit(Rows(inserts=[message(number)]), partial(answer, number)):
            answer(number, None)
        else:
            assert number not in answered
    if not store.submit(Rows(), last.set_result):
        await last
    assert answered == [3, 1, 2]


async def test_a_batch_that_fails_is_answered_with_its_error() -> None:
    store = MemoryStore()
    answer = asyncio.get_running_loop().create_future()
    await store.write(Rows(inserts=[message(1)]))
    store.submit(Rows(inserts=[message(1)]), answer.set_result)
    assert isinstance(await answer, StoreFailedError)


async def test_closing_twice_is_harmless(store: Store) -> None:
    await store.close()
    await store.close()
