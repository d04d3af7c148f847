"""A record of the log: it counts only whole, only where it says it lies, and only with the key of its store."""

from __future__ import annotations

from random import Random

import pytest

from broker.storage.log import record
from broker.storage.log.record import HEADER_BYTES, Place, Record, blocks_of, decode, encode, file_header, pack, unpack
from broker.storage.store import MessageRow, Rows

from .samples import ORDERS, SHIPPING, message

BLOCK = 4096
SEED = 0x5EED
PLACE = Place(1, 7)

ROWS = Rows(
    inserts=[message(1, b""), message(2**62, b"\0\xff" * 3000), message(3, persistent=0)._replace(hardened=1)],
    removals=[4, 2**62],
    backouts=[(5, 17)],
    hardened=[6],
    objects=[ORDERS, SHIPPING._replace(name="ÄÖ.SHIPPING")],
    dropped=[("QUEUE", "GONE")],
    high_water=2**61,
)


def encoded(payload: bytes, place: Place = PLACE, **changes: int) -> bytes:
    values = {"number": 12, "generation": 3, "seed": SEED, **changes}
    return encode(payload, values["number"], values["generation"], place, seed=values["seed"], block_bytes=BLOCK)


def decoded(data: bytes, place: Place = PLACE, seed: int = SEED) -> Record | None:
    return decode(memoryview(data), place, seed=seed, block_bytes=BLOCK)


@pytest.mark.parametrize("rows", [Rows(), ROWS], ids=["empty", "everything"])
def test_a_batch_comes_back_as_it_was(rows: Rows) -> None:
    found = unpack(memoryview(pack(rows)))
    assert found == rows
    assert all(isinstance(row, MessageRow) for row in found.inserts)


@pytest.mark.parametrize(
    ("length", "blocks"),
    [(0, 1), (BLOCK - HEADER_BYTES, 1), (BLOCK - HEADER_BYTES + 1, 2), (3 * BLOCK - HEADER_BYTES, 3)],
)
def test_a_record_is_whole_blocks_and_comes_back(length: int, blocks: int) -> None:
    payload = Random(length).randbytes(length)
    data = encoded(payload)
    assert len(data) == blocks * BLOCK == blocks_of(length, BLOCK) * BLOCK
    assert data[HEADER_BYTES + length :].strip(b"\0") == b""
    found = decoded(data + b"what is behind it")
    assert found is not None
    assert (found.number, found.generation, found.place, found.blocks) == (12, 3, PLACE, blocks)
    assert bytes(found.payload) == payload


@pytest.mark.parametrize("place", [Place(0, 7), Place(1, 6), Place(1, 8)])
def test_a_record_does_not_count_at_another_place(place: Place) -> None:
    assert decoded(encoded(b"payload"), place) is None


def test_a_record_does_not_count_with_another_key() -> None:
    assert decoded(encoded(b"payload"), seed=SEED + 1) is None


def test_every_bit_of_a_record_that_changes_is_told() -> None:
    """Journal rule 13: header, payload and padding."""
    data = bytearray(encoded(b"payload" * 20))
    for bit in range(8 * (HEADER_BYTES + 200)):
        data[bit // 8] ^= 1 << bit % 8
        assert decoded(bytes(data)) is None, f"bit {bit}"
        data[bit // 8] ^= 1 << bit % 8
    for at in range(HEADER_BYTES + 200, BLOCK):
        data[at] ^= 0x10
        assert decoded(bytes(data)) is None, f"byte {at}"
        data[at] ^= 0x10
    assert decoded(bytes(data)) is not None


@pytest.mark.parametrize("kept", [0, 10, HEADER_BYTES - 1, HEADER_BYTES, BLOCK, 2 * BLOCK, 3 * BLOCK - 1])
def test_a_record_that_is_cut_short_does_not_count(kept: int) -> None:
    data = encoded(bytes(2 * BLOCK + 1))
    assert decoded(data[:kept]) is None
    assert decoded(data[:kept].ljust(len(data), b"\xa5")) is None


def test_the_length_of_a_bad_record_is_not_believed() -> None:
    data = bytearray(encoded(b"payload"))
    data[20:24] = b"\xff\xff\xff\xff"
    assert decoded(bytes(data)) is None


def test_the_header_of_a_file_differs_by_store_file_and_size() -> None:
    def header(instance: bytes = b"i" * 16, file: int = 0, file_bytes: int = 8 * BLOCK, seed: int = SEED) -> bytes:
        return file_header(instance, file, block_bytes=BLOCK, file_bytes=file_bytes, seed=seed)

    assert len(header()) == BLOCK
    assert header().startswith(b"EVMQLOGF")
    assert len({header(), header(b"j" * 16), header(file=1), header(file_bytes=9 * BLOCK), header(seed=1)}) == 5


def test_a_header_of_a_file_is_no_record() -> None:
    assert not record.file_header(b"i" * 16, 0, block_bytes=BLOCK, file_bytes=BLOCK, seed=SEED)[4:].startswith(b"\0")
    assert decoded(file_header(b"i" * 16, 1, block_bytes=BLOCK, file_bytes=8 * BLOCK, seed=SEED), Place(1, 0)) is None
