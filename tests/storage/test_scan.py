"""The log read whole: which records count, which belong behind the snapshot, and what is missing (log rule 7.5)."""

from __future__ import annotations

from random import Random

import pytest

from broker.storage.log.record import LogPlace, Record, encode
from broker.storage.log.scan import chain, records_in

BLOCK = 4096
SEED = 7


def block(number: int, place: LogPlace, *, blocks: int = 1, generation: int = 1) -> bytes:
    payload = Random(number).randbytes((blocks - 1) * BLOCK + 100)
    return encode(payload, number, generation, place, seed=SEED, block_bytes=BLOCK)


def found(content: bytes, file: int = 0) -> list[tuple[int, int]]:
    """Number and first block of the records in a file."""
    return [(each.number, each.place.block) for each in records_in(content, file, seed=SEED, block_bytes=BLOCK)]


def test_records_are_found_between_blocks_of_no_meaning() -> None:
    content = b"".join(
        (
            bytes(BLOCK),
            block(5, LogPlace(0, 1), blocks=2),
            b"\xa5" * BLOCK,
            block(6, LogPlace(0, 4)),
            bytes(BLOCK),
            block(3, LogPlace(0, 6)),
        )
    )
    assert found(content) == [(5, 1), (6, 4), (3, 6)]


def test_the_first_block_is_none_of_a_record_and_a_last_part_neither() -> None:
    content = block(1, LogPlace(0, 0)) + block(2, LogPlace(0, 1)) + block(3, LogPlace(0, 2))[:-1]
    assert found(content) == [(2, 1)]


def test_the_blocks_of_a_record_that_counts_are_jumped_over() -> None:
    """log case 4: a body may hold a copy of a log file."""
    inner = block(99, LogPlace(0, 2))
    outer = encode(bytes(BLOCK - 48) + inner, 1, 1, LogPlace(0, 1), seed=SEED, block_bytes=BLOCK)
    assert found(bytes(BLOCK) + outer) == [(1, 1)]


def test_in_a_torn_record_a_copy_of_a_record_counts_only_in_its_place() -> None:
    """log case 4: the key is secret, so a program can only copy what it has read, to where it did not lie."""
    for place, expected in ((LogPlace(0, 9), []), (LogPlace(1, 2), []), (LogPlace(0, 2), [(99, 2)])):
        outer = bytearray(
            encode(bytes(BLOCK - 48) + block(99, place), 1, 1, LogPlace(0, 1), seed=SEED, block_bytes=BLOCK)
        )
        outer[100] ^= 1
        assert found(bytes(BLOCK) + bytes(outer)) == expected


def records(*numbers: int | tuple[int, int]) -> list[Record]:
    """Records by number, or by number and generation, each in a block of its own."""
    pairs = [each if isinstance(each, tuple) else (each, 1) for each in numbers]
    return [
        Record(number, generation, LogPlace(0, 1 + at), 1, memoryview(b""))
        for at, (number, generation) in enumerate(pairs)
    ]


CHAINS = {
    "nothing": ([], 4, 1, [], 4, []),
    "all is in the snapshot": ([3, 4], 4, 1, [], 4, []),
    "what is behind it": ([3, 4, 5, 6], 4, 1, [5, 6], 6, []),
    "in any order": ([6, 3, 5], 4, 1, [5, 6], 6, []),
    "a gap at the beginning": ([6, 7], 4, 1, [], 4, [6, 7]),
    "a gap in the middle": ([5, 7, 8], 4, 1, [5], 5, [7, 8]),
    "an older generation behind the snapshot": ([(5, 1)], 4, 2, [], 4, []),
    "a generation that falls": ([(5, 2), (6, 1)], 4, 1, [5], 5, []),
    "one that rises": ([(5, 1), (6, 2), (7, 2)], 4, 1, [5, 6, 7], 7, []),
    "beyond a gap, but older than the chain": ([(5, 2), (7, 1)], 4, 1, [5], 5, []),
    "beyond a gap, as old as the chain": ([(5, 2), (7, 2)], 4, 1, [5], 5, [7]),
}


@pytest.mark.parametrize(("numbers", "number", "generation", "expected", "end", "beyond"), CHAINS.values(), ids=CHAINS)
def test_the_chain_behind_a_snapshot(
    numbers: list[int | tuple[int, int]], number: int, generation: int, expected: list[int], end: int, beyond: list[int]
) -> None:
    chained = chain(records(*numbers), number, generation)
    assert [each.number for each in chained.records] == expected
    assert (chained.end, [each.number for each in chained.beyond]) == (end, beyond)


def test_of_two_records_of_one_number_the_higher_generation_counts() -> None:
    for numbers in ([(5, 2), (5, 3)], [(5, 3), (5, 2)]):
        (kept,) = chain(records(*numbers), 4, 1).records
        assert kept.generation == 3


def test_the_next_record_goes_behind_the_last_of_the_chain_or_to_the_beginning() -> None:
    assert chain([], 4, 1).next_place == LogPlace(0, 1)
    last = Record(5, 1, LogPlace(1, 17), 3, memoryview(b""))
    assert chain([last], 4, 1).next_place == LogPlace(1, 20)
