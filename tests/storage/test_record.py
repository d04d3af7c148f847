"""A record of the log: it counts only whole, only where it says it lies, and only with the key of its store."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgpack
import pytest

from broker.storage.log import record
from broker.storage.log.record import (
    HEADER_BYTES,
    LogPlace,
    Record,
    blocks_of,
    decode,
    encode,
    file_header,
    pack,
    unpack,
)
from broker.storage.store import KeyRow, MessageRow, Numbering, Rows, StepRow

from .samples import ARCHIVE, ORDERS, SHIPPING, key, message, step

BLOCK = 4096
SEED = 0x5EED
PLACE = LogPlace(1, 7)

ROWS = Rows(
    inserts=[message(1, b""), message(2**62, b"\0\xff" * 3000), message(3, persistent=0)._replace(hardened=1)],
    removals=[4, 2**62],
    backouts=[(5, 17)],
    hardened=[6],
    objects=[ORDERS, SHIPPING._replace(name="ÄÖ.SHIPPING")],
    dropped=[("QUEUE", "GONE")],
    high_water=2**61,
)
RUNS = Rows(
    inserts=[
        message(1, persistent=0)._replace(holder=2**62, sequence=1),
        message(2)._replace(place=2**62, backout_count=1),
        message(3),
    ],
    removals=[4],
    held=[Numbering(7, 2**61, [1, 2, 3, 10, 9, 2**62, 11, 12]), Numbering(8, 1, [])],
    placed=[Numbering(0, 500, list(range(20, 40)))],
)

HANDLED = Rows(
    inserts=[message(1)._replace(handling=b"\0\xff"), message(2)],
    handled=[(3, 2, b"failed"), (2**62, 0, b"")],
    marked=[(4, 2), (5, 3)],
    keys=[key(1), key(2, b"\0\xff", until=1.8e9 + 1e-6)],
    freed=[key(6, queue=2**40)[:2]],
)

STEPS = Rows(inserts=[message(1)], steps=[step(1), step(2**62, 999, "Größe#2", b"\0\xff" * 3000)])

OLD = Rows(
    inserts=[
        MessageRow(300, 7, 4, 1, b"descriptor", 5, b"hello"),
        MessageRow(2**40, 7, 9, 0, b"", 0, b"", backout_count=3, hardened=1),
    ],
    removals=[4, 2**62],
    backouts=[(5, 17)],
    hardened=[6],
    objects=[ORDERS],
    dropped=[("QUEUE", "GONE")],
    high_water=2**61,
)
OLD_PAYLOAD = bytes.fromhex(
    "979299cd012c070401c40a64657363726970746f7205c40568656c6c6f000099cf0000010000000000070900c40000c40003019204cf4000"
    "0000000000009192051191069195c4055155455545c4064f524445525307c406514c4f43414cc4066f72646572739192c4055155455545c4"
    "04474f4e45cf2000000000000000"
)
"""As a release that knew no claims has written it."""


def encoded(payload: bytes, place: LogPlace = PLACE, **changes: int) -> bytes:
    values = {"number": 12, "generation": 3, "seed": SEED, **changes}
    return encode(payload, values["number"], values["generation"], place, seed=values["seed"], block_bytes=BLOCK)


def decoded(data: bytes, place: LogPlace = PLACE, seed: int = SEED) -> Record | None:
    return decode(memoryview(data), place, seed=seed, block_bytes=BLOCK)


@pytest.mark.parametrize(
    "rows", [Rows(), ROWS, RUNS, HANDLED, STEPS], ids=["empty", "everything", "runs", "handled", "steps"]
)
def test_a_batch_comes_back_as_it_was(rows: Rows) -> None:
    found = unpack(memoryview(pack(rows)))
    assert found == rows
    assert all(isinstance(row, MessageRow) for row in found.inserts)
    assert all(isinstance(row, KeyRow) for row in found.keys)
    assert all(isinstance(row, StepRow) for row in found.steps)


def test_d7_7_a_batch_without_steps_is_as_it_was_before_there_were_any() -> None:
    """So what the log of an older release holds is read, and a batch without steps takes not a byte more."""
    assert len(msgpack.unpackb(pack(HANDLED))) == 13
    assert len(msgpack.unpackb(pack(STEPS))) == 14


def test_a_batch_without_claims_is_as_it_was_before_there_were_any() -> None:
    """So what the log of an older release holds is read."""
    assert pack(OLD) == OLD_PAYLOAD
    assert unpack(memoryview(OLD_PAYLOAD)) == OLD


def test_a_batch_with_claims_is_as_it_was_before_there_were_handlers() -> None:
    """So what the log of an older release holds is read: a row ends where nothing but its defaults follows."""
    payload = pack(RUNS)
    assert len(msgpack.unpackb(payload)) == 9
    rows = [row[:12] for row in msgpack.unpackb(payload)[0]]
    assert unpack(memoryview(msgpack.packb([rows, *msgpack.unpackb(payload)[1:]]))) == RUNS


def test_states_come_back_as_objects() -> None:
    """That they need no room is asked before they are written."""
    assert unpack(memoryview(pack(Rows(objects=[ORDERS], states=[ARCHIVE])))) == Rows(objects=[ORDERS, ARCHIVE])
    assert unpack(memoryview(pack(Rows(states=[ARCHIVE])))) == Rows(objects=[ARCHIVE])


@pytest.mark.parametrize(
    ("ids", "bytes_max"),
    [
        (range(10**9, 10**9 + 20_000), 40),
        ([first + at for first in range(10**9, 10**9 + 10**6, 10_000) for at in range(200)], 700),
        (sorted(Random(1).sample(range(10**9, 10**9 + 10_000), 1000)), 2500),
        (Random(1).sample(range(10**9, 10**9 + 10_000), 1000), 4500),
    ],
    ids=["one piece", "pieces", "scattered", "scattered, by priority"],
)
def test_a_run_takes_few_bytes(ids: Sequence[int], bytes_max: int) -> None:
    """log rule 2.4."""
    rows = Rows(held=[Numbering(7, 1, list(ids))])
    assert len(pack(rows)) - len(pack(Rows())) < bytes_max
    assert unpack(memoryview(pack(rows))) == rows


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


@pytest.mark.parametrize("place", [LogPlace(0, 7), LogPlace(1, 6), LogPlace(1, 8)])
def test_a_record_does_not_count_at_another_place(place: LogPlace) -> None:
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
    assert (
        decoded(file_header(b"i" * 16, 1, block_bytes=BLOCK, file_bytes=8 * BLOCK, seed=SEED), LogPlace(1, 0)) is None
    )
