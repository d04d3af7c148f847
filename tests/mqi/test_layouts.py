"""The bytes of MQTM, MQTMC2, MQDLH and MQXQH, field by field."""

from __future__ import annotations

import struct

import pytest

from broker.mqi.constants.descriptor import MQAT, MQFB, MQFMT
from broker.mqi.layouts.fields import ByteOrder, decode_characters, encode_characters
from broker.mqi.layouts.layouts import MQDLH, MQTM, MQTMC2, MQXQH
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

TRIGGER = MQTM(
    q_name="ORDERS",
    process_name="MYPROCESS",
    trigger_data="THISISTRIGGER",
    appl_type=MQAT.UNIX,
    appl_id="APPL",
    env_data="MYENVR",
    user_data="TESTING",
)
MQTM_LITTLE_ENDIAN = struct.Struct("<4sI48s48s64si256s128s128s")

BYTE_ORDERS = pytest.mark.parametrize("byteorder", ["little", "big"])


def padded(text: str, size: int) -> bytes:
    return text.encode().ljust(size)


def test_an_mqtm_is_684_bytes_and_begins_with_tm() -> None:
    data = TRIGGER.to_bytes()
    assert len(data) == MQTM.SIZE == 684
    assert MQTM_LITTLE_ENDIAN.unpack(data) == (
        b"TM  ",
        1,
        padded("ORDERS", 48),
        padded("MYPROCESS", 48),
        padded("THISISTRIGGER", 64),
        6,
        padded("APPL", 256),
        padded("MYENVR", 128),
        padded("TESTING", 128),
    )


def test_a_transmission_queue_without_a_process_makes_an_mqtm_of_blanks() -> None:
    data = MQTM(q_name="QM2", trigger_data="TO.QM2", appl_type=MQAT.UNKNOWN).to_bytes()
    assert data[56:104] == b" " * 48
    assert data[104:168] == padded("TO.QM2", 64)
    assert data[168:172] == b"\xff\xff\xff\xff"
    assert data[172:684] == b" " * 512


@BYTE_ORDERS
def test_an_mqtm_returns_from_its_bytes(byteorder: ByteOrder) -> None:
    assert MQTM.from_bytes(TRIGGER.to_bytes(byteorder), byteorder) == TRIGGER


def test_an_mqtmc2_is_732_bytes_all_of_them_characters() -> None:
    data = bytes(TRIGGER.to_tmc2("QM1"))
    assert len(data) == MQTMC2.SIZE == 732
    assert data[:8] == b"TMC    2"
    assert data[8:168] == TRIGGER.to_bytes()[8:168]
    assert data[172:684] == TRIGGER.to_bytes()[172:684]
    assert data[684:] == padded("QM1", 48)


def test_the_application_type_of_an_mqtmc2_is_four_blanks_even_for_type_6() -> None:
    assert TRIGGER.appl_type == 6
    assert bytes(TRIGGER.to_tmc2("QM1"))[168:172] == b"    "


def test_an_mqtmc2_returns_from_its_bytes() -> None:
    message = TRIGGER.to_tmc2("QM1")
    assert MQTMC2.from_bytes(bytes(message)) == message


def test_version_1_of_an_mqtmc_is_accepted_without_a_queue_manager_name() -> None:
    version_1 = b"TMC    1" + bytes(TRIGGER.to_tmc2("QM1"))[8:684]
    assert len(version_1) == 684
    assert MQTMC2.from_bytes(version_1) == TRIGGER.to_tmc2("")
    assert bytes(MQTMC2.from_bytes(version_1))[:8] == b"TMC    2"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "MQTM has 684 bytes, not 0"),
        (b"a text put by hand", "MQTM has 684 bytes, not 18"),
        (TRIGGER.to_bytes() + b" ", "MQTM has 684 bytes, not 685"),
        (TRIGGER.to_bytes("big"), r"MQTM begins with \('TM', 1\), not with \('TM', 16777216\)"),
        (b"TX" + TRIGGER.to_bytes()[2:], r"MQTM begins with \('TM', 1\), not with \('TX', 1\)"),
        (TRIGGER.to_bytes()[:104] + b"\xff" * 64 + TRIGGER.to_bytes()[168:], "MQTM trigger_data is not UTF-8"),
    ],
)
def test_what_is_not_an_mqtm_is_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MQTM.from_bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "MQTMC2 has 732 bytes, not 0"),
        (bytes(TRIGGER.to_tmc2("QM1"))[:684], "MQTMC2 has 732 bytes, not 684"),
        (b"TMC    1" + b" " * 724, "MQTMC has 684 bytes, not 732"),
        (b"TMC    3" + b" " * 724, r"MQTMC2 begins with \('TMC', '   2'\), not with \('TMC', '   3'\)"),
        (TRIGGER.to_bytes() + b" " * 48, "MQTMC2 begins with"),
    ],
)
def test_what_is_not_an_mqtmc2_is_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MQTMC2.from_bytes(data)


def test_an_integer_beyond_four_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="MQTM appl_type is 4294967296, which does not fit into four bytes"):
        MQTM(q_name="Q", appl_type=2**32).to_bytes()


DEAD = MQDLH(
    reason=MQRC.Q_FULL,
    dest_q_name="SYSTEM.DEFAULT.INITIATION.QUEUE",
    dest_q_mgr_name="QM1",
    encoding=546,
    coded_char_set_id=1208,
    format=MQFMT.TRIGGER,
    put_appl_type=MQAT.QMGR,
    put_appl_name="QM1",
    put_date="20240131",
    put_time="23595999",
)


def test_an_mqdlh_is_172_bytes_with_each_field_at_its_offset() -> None:
    data = DEAD.to_bytes()
    assert len(data) == MQDLH.SIZE == 172
    assert struct.unpack("<4sii48s48sii8si28s8s8s", data) == (
        b"DLH ",
        1,
        2053,
        padded("SYSTEM.DEFAULT.INITIATION.QUEUE", 48),
        padded("QM1", 48),
        546,
        1208,
        b"MQTRIG  ",
        7,
        padded("QM1", 28),
        b"20240131",
        b"23595999",
    )


@BYTE_ORDERS
def test_an_mqdlh_returns_from_its_bytes(byteorder: ByteOrder) -> None:
    assert MQDLH.from_bytes(DEAD.to_bytes(byteorder), byteorder) == DEAD


def test_an_mqdlh_stands_before_the_data_of_its_message() -> None:
    message = MQDLH(reason=MQFB.TM_ERROR).to_bytes() + b"data"
    assert MQDLH.from_bytes(message) == MQDLH(reason=266)
    assert message[MQDLH.SIZE :] == b"data"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"DLH ", "MQDLH has 172 bytes, not 4"),
        (b" " * 172, r"MQDLH begins with \('DLH', 1\), not with \('', 538976288\)"),
    ],
)
def test_what_is_not_an_mqdlh_is_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MQDLH.from_bytes(data)


@pytest.mark.parametrize(
    ("text", "size", "data"),
    [
        ("", 4, b"    "),
        ("QM1", 4, b"QM1 "),
        ("QM1234", 4, b"QM12"),
        ("naïve", 3, b"na "),
        ("naïve", 4, "naï".encode()),
        ("€€", 5, "€  ".encode()),
    ],
)
def test_characters_are_padded_or_cut_between_two_of_them(text: str, size: int, data: bytes) -> None:
    assert encode_characters(text, size) == data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"QM1     ", "QM1"),
        (b"QM1\0\0\0\0\0", "QM1"),
        (b"QM1 \0 \0 ", "QM1"),
        (b"   2", "   2"),
        (b"\0\0\0\0", ""),
    ],
)
def test_decoding_drops_the_blanks_and_nuls_at_the_end(data: bytes, text: str) -> None:
    assert decode_characters(data) == text


TRANSMITTED = MQXQH(
    "THERE",
    "QM2",
    MessageDescriptor(
        report=1, msg_type=2, expiry=3, feedback=4, encoding=5, coded_char_set_id=6, format="FORMAT", priority=7,
        persistence=1, msg_id=b"m" * 24, correl_id=b"c" * 24, backout_count=8, reply_to_q="REPLIES",
        reply_to_q_mgr="QM1", user_identifier="user", accounting_token=b"a" * 32, appl_identity_data="identity",
        put_appl_type=9, put_appl_name="program", put_date="20260304", put_time="12301500", appl_origin_data="orig",
        version=1,
    ),
)  # fmt: skip
MQXQH_LITTLE_ENDIAN = struct.Struct("<4sI48s48s4s7i8s2i24s24si48s48s12s32s32si28s8s8s4s")


def test_an_mqxqh_is_428_bytes_and_ends_with_the_descriptor() -> None:
    data = TRANSMITTED.to_bytes()
    assert len(data) == MQXQH.SIZE == 428
    assert MQXQH_LITTLE_ENDIAN.unpack(data) == (
        b"XQH ",
        1,
        padded("THERE", 48),
        padded("QM2", 48),
        b"MD  ",
        *(1, 1, 2, 3, 4, 5, 6),
        padded("FORMAT", 8),
        *(7, 1),
        b"m" * 24,
        b"c" * 24,
        8,
        padded("REPLIES", 48),
        padded("QM1", 48),
        padded("user", 12),
        b"a" * 32,
        padded("identity", 32),
        9,
        padded("program", 28),
        b"20260304",
        b"12301500",
        b"orig",
    )


@BYTE_ORDERS
def test_an_mqxqh_returns_from_the_head_of_a_message(byteorder: ByteOrder) -> None:
    assert MQXQH.from_bytes(TRANSMITTED.to_bytes(byteorder) + b"data", byteorder) == TRANSMITTED


@pytest.mark.parametrize("damage", [slice(0, 4), slice(4, 8), slice(104, 108), slice(108, 112), slice(400, 428)])
def test_what_is_no_mqxqh_is_refused(damage: slice) -> None:
    data = bytearray(TRANSMITTED.to_bytes())
    del data[damage]
    with pytest.raises(ValueError, match=r"MQXQH|MQMD"):
        MQXQH.from_bytes(bytes(data))
