"""MQRFH2, byte by byte, and the folders in it: what is written, what is read, and what is refused."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mqi import MQRC, MQError
from broker.mqi.layouts.folders import NAME_LENGTH_MAX, decode, encode, read
from broker.mqi.layouts.rfh2 import FOLDERS_MAX, INHERIT, MQRFH2, pack, unpack, unpack_properties
from tests.core.effort import Effort
from tests.tries import tries

if TYPE_CHECKING:
    from broker.mqi.layouts.fields import ByteOrder
    from broker.mqi.layouts.folders import Value

BYTE_ORDERS = pytest.mark.parametrize("byteorder", ["little", "big"])
FOLDER = "<usr><colour>red</colour><n dt='i4'>5</n></usr>"


def reason_of(text: str) -> int:
    with pytest.raises(MQError) as caught:
        decode([read(text).text])
    return caught.value.reason


# The header


def test_a_header_has_36_bytes_and_then_its_folders_padded_with_blanks() -> None:
    data = MQRFH2((FOLDER,), format="MQSTR", encoding=546, coded_char_set_id=1208, flags=0).to_bytes()
    text = FOLDER.encode().ljust(48)
    assert data == struct.pack("<4siiii8siii", b"RFH ", 2, 88, 546, 1208, b"MQSTR   ", 0, 1208, 48) + text


@BYTE_ORDERS
def test_a_header_is_read_as_it_was_written(byteorder: ByteOrder) -> None:
    header = MQRFH2((FOLDER, "<psc>x</psc>"), "MQSTR", 273, 819, 7)
    assert MQRFH2.from_bytes(header.to_bytes(byteorder) + b"data", byteorder) == (header, len(header.to_bytes()))


def test_a_number_that_uses_the_highest_bit_keeps_its_bits() -> None:
    found, _ = MQRFH2.from_bytes(MQRFH2(encoding=2**32 - 1, flags=2**31).to_bytes())
    assert (found.encoding, found.flags) == (-1, -(2**31))


def test_a_header_without_folders_is_one() -> None:
    assert MQRFH2.from_bytes(MQRFH2().to_bytes()) == (MQRFH2(coded_char_set_id=INHERIT), 36)


@BYTE_ORDERS
@pytest.mark.parametrize("ccsid", [1200, 13488, 17584])
def test_folders_in_utf_16_are_read(byteorder: ByteOrder, ccsid: int) -> None:
    order = "<" if byteorder == "little" else ">"
    text = FOLDER.encode("utf-16-le" if byteorder == "little" else "utf-16-be")
    text += bytes(-len(text) % 4)
    fixed = struct.pack(f"{order}4siiii8siii", b"RFH ", 2, 40 + len(text), 546, 1208, b"", 0, ccsid, len(text))
    assert MQRFH2.from_bytes(fixed + text, byteorder)[0].folders == (FOLDER,)


def header(tag: bytes = b"RFH ", version: int = 2, length: int = 88, ccsid: int = 1208, folder: int = 48) -> bytes:
    fixed = struct.pack("<4siiii8siii", tag, version, length, 546, 1208, b"MQSTR   ", 0, ccsid, folder)
    return fixed + FOLDER.encode().ljust(48)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"RFH ", header()[:35], header()[:-1], header(tag=b"XXX "), header(version=1), header(length=35),
        header(length=37), header(length=-4), header(length=2**31 - 1), header(length=38), header(ccsid=37),
        header(folder=-1), header(folder=47), header(folder=52), header(folder=2**31 - 1), header(folder=40),
        header()[:40] + b"\xff" * 48,
    ],
)  # fmt: skip
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(MQError) as caught:
        MQRFH2.from_bytes(data)
    assert caught.value.reason == MQRC.RFH_ERROR


@tries(300)
@given(st.binary(max_size=80), st.binary(max_size=8), st.integers(0, 80))
def test_no_bytes_do_harm(data: bytes, change: bytes, where: int) -> None:
    whole = header()
    for attempt in (data, whole[:where] + change + whole[where + len(change) :]):
        try:
            found, _ = MQRFH2.from_bytes(attempt)
            decode(read(text).text for text in found.folders)
        except MQError as error:
            assert error.reason in (MQRC.RFH_ERROR, MQRC.RFH_FORMAT_ERROR)


# Properties


NAMES = st.from_regex(r"[a-zA-Z_$][\w$]{0,10}(\.[a-z_][\w$]{0,5}){0,3}", fullmatch=True).filter(
    lambda name: not name.startswith(("JMS", "usr.", "mq.", "psc", "Root"))
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)


@given(st.dictionaries(NAMES, VALUES))
def test_properties_are_read_as_they_were_written(properties: dict[str, Value]) -> None:
    words = {"null", "true", "false", "not", "and", "or", "between", "like", "in", "is", "escape"}
    properties = {name: value for name, value in properties.items() if name.lower() not in words}
    found = unpack_properties(pack(encode(properties)))
    assert found == properties
    assert [type(found[name]) for name in found] == [type(properties[name]) for name in found]


@pytest.mark.parametrize(
    ("properties", "folders"),
    [
        ({"colour": "red"}, ["<usr><colour>red</colour></usr>"]),
        ({"usr.colour": "red"}, ["<usr><colour>red</colour></usr>"]),
        ({"n": 5, "big": 2**40}, ["<usr><n dt='i4'>5</n><big dt='i8'>1099511627776</big></usr>"]),
        ({"x": 1.5}, ["<usr><x dt='r8'>1.5</x></usr>"]),
        ({"on": True, "off": False}, ["<usr><on dt='boolean'>1</on><off dt='boolean'>0</off></usr>"]),
        ({"key": b"\x0a\xfc"}, ["<usr><key dt='bin.hex'>0AFC</key></usr>"]),
        (
            {"none": None},
            ["<usr xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance'><none xsi:nil='true'></none></usr>"],
        ),
        ({"a": "<&>'\""}, ["<usr><a>&lt;&amp;&gt;'\"</a></usr>"]),
        ({"mcd.Msd": "jms_text"}, ["<mcd><Msd>jms_text</Msd></mcd>"]),
        ({"wmq.a": 1, "wmq.b.c": "x"}, ["<wmq content='properties'><a dt='i4'>1</a><b><c>x</c></b></wmq>"]),
        ({}, []),
    ],
)
def test_a_property_stands_in_a_folder(properties: dict[str, Value], folders: list[str]) -> None:
    assert encode(properties) == folders


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("<usr></usr>", {}),
        ("<usr/>", {}),
        ("<usr><a>1</a><b>2</b></usr>", {"a": "1", "b": "2"}),
        ("<usr>\n  <a>1</a>\n  <b/>\n</usr>  ", {"a": "1", "b": ""}),
        ("<usr><a>  two words </a></usr>", {"a": "  two words "}),
        ("<usr><a dt='i1'>-128</a><b dt='i2'>300</b></usr>", {"a": -128, "b": 300}),
        ('<usr><a dt="i4">5</a><b dt = "string">5</b></usr>', {"a": 5, "b": "5"}),
        ("<usr><a dt='int'> 5 </a></usr>", {"a": 5}),
        ("<usr><a dt='r4'>1.5e3</a><b dt='r8'>-INF</b></usr>", {"a": 1500.0, "b": -math.inf}),
        ("<usr><a xsi:nil='true'/></usr>", {"a": None}),
        ("<usr><a>1</a><a>2</a></usr>", {"a": "1"}),
        ("<usr><g><a>1</a></g></usr>", {"usr.g.a": "1"}),
        ("<mcd><Msd>x</Msd></mcd>", {"mcd.Msd": "x"}),
        ("<a content='properties'><b><c>1</c><d>2</d></b></a>", {"a.b.c": "1", "a.b.d": "2"}),
        ("<usr><a>&lt;&amp;&gt;&apos;&quot;</a></usr>", {"a": "<&>'\""}),
        ("<usr><über>1</über></usr>", {"über": "1"}),
        ("<usr><a>&amp;lt;&amp;amp;</a></usr>", {"a": "&lt;&amp;"}),
        ("<usr><a >1</a ><g> <b>2</b > </g></usr >", {"a": "1", "usr.g.b": "2"}),
        ("<usr><g a='b'><a>1</a></g><c x='1' dt='i4'>2</c></usr>", {"usr.g.a": "1", "c": 2}),
        ("<usr><g><h/><a>1</a></g><a/></usr>", {"usr.g.h": "", "usr.g.a": "1", "a": ""}),
        ("<mq_usr><usr><a>1</a></usr></mq_usr>", {"mq_usr.usr.a": "1"}),
        ("<usr><usr><a>1</a></usr></usr>", {"usr.usr.a": "1"}),
        ("<usr><a></a ><b dt='bin.hex'> 0aFF </b></usr>", {"a": "", "b": b"\x0a\xff"}),
    ],
)
def test_a_folder_is_read(text: str, properties: dict[str, Value]) -> None:
    folder = read(text)
    assert folder.holds_properties
    assert decode([folder.text]) == properties


@pytest.mark.parametrize("text", ["<psc><Command>Publish</Command></psc>", "<mine><a>1</a></mine>"])
def test_other_folders_hold_no_properties(text: str) -> None:
    assert not read(text).holds_properties


@pytest.mark.parametrize(
    "text",
    [
        "usr", "</usr>", "<usr", "<>", "<usr>", "<usr><a>1</a>", "<usr><a>1</usr>", "<usr><a>1</b></usr>",
        "<usr>text</usr>", "<usr><a>1</a>text</usr>", "<usr></usr><usr></usr>", "<usr><a></a></usr>x",
        "<usr><a>&unknown;</a></usr>", "<usr><a>&#65;</a></usr>", "<usr><a>& b</a></usr>",
        "<?xml version='1.0'?><usr></usr>", "<!DOCTYPE x [<!ENTITY a 'b'>]><usr><a>&a;</a></usr>",
        "<usr><!-- comment --></usr>", "<usr><![CDATA[x]]></usr>", "<usr><a b></a></usr>", "<usr><a b=c></a></usr>",
        "<usr><a dt='i4'>x</a></usr>", "<usr><a dt='i4'></a></usr>", "<usr><a dt='i1'>128</a></usr>",
        "<usr><a dt='i4'>2147483648</a></usr>", "<usr><a dt='i8'>9223372036854775808</a></usr>",
        "<usr><a dt='i8'>" + "9" * 5000 + "</a></usr>", "<usr><a dt='boolean'>yes</a></usr>",
        "<usr><a dt='bin.hex'>0AF</a></usr>", "<usr><a dt='bin.hex'>0 AF</a></usr>", "<usr><a dt='r8'>1_0</a></usr>",
        "<usr><a dt='pickle'>x</a></usr>", "<usr>" + "<a>" * 100 + "</a>" * 100 + "</usr>", "<usr>" + "<a>" * 100_000,
        "<usr><" + "a" * (NAME_LENGTH_MAX + 1) + ">1</" + "a" * (NAME_LENGTH_MAX + 1) + "></usr>",
        "<usr><g><" + "a" * (NAME_LENGTH_MAX - 5) + ">1</" + "a" * (NAME_LENGTH_MAX - 5) + "></g></usr>",
        "<usr><a" + " b='c'" * 17 + ">1</a></usr>", "<usr><a>&amp;&</a></usr>", "<usr><a>&AMP;</a></usr>",
        "<usr><a dt='r8'>1" + "0" * 1000 + "</a></usr>", "<usr><a dt='bin.hex'>ä0</a></usr>",
    ],
)  # fmt: skip
def test_text_that_is_no_folder_is_refused(text: str) -> None:
    assert reason_of(text) == MQRC.RFH_FORMAT_ERROR


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", MQRC.PROPERTY_NAME_ERROR), ("a b", MQRC.PROPERTY_NAME_ERROR), ("1a", MQRC.PROPERTY_NAME_ERROR),
        ("a.", MQRC.PROPERTY_NAME_ERROR), (".a", MQRC.PROPERTY_NAME_ERROR), ("a<b", MQRC.PROPERTY_NAME_ERROR),
        ("and", MQRC.PROPERTY_NAME_ERROR), ("NULL", MQRC.PROPERTY_NAME_ERROR), ("JMSType", MQRC.PROPERTY_NAME_ERROR),
        ("usr.JMSType", MQRC.PROPERTY_NAME_ERROR), ("Root.MQMD.Priority", MQRC.PROPERTY_NAME_ERROR),
        ("mq.x", MQRC.PROPERTY_NAME_ERROR), ("psc.x", MQRC.PROPERTY_NAME_ERROR),
        (".".join("a" * 100), MQRC.PROPERTY_NAME_ERROR),
        ("a" * (NAME_LENGTH_MAX + 1), MQRC.PROPERTY_NAME_LENGTH_ERR),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_one_is_refused(name: str, reason: MQRC) -> None:
    with pytest.raises(MQError) as caught:
        encode({name: "x"})
    assert caught.value.reason == reason


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1j, [1], {"a": 1}, object(), "\ud800"])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(MQError) as caught:
        encode({"a": value})  # type: ignore[dict-item]
    assert caught.value.reason == MQRC.PROPERTY_TYPE_ERROR


def test_what_is_no_number_comes_back_as_such() -> None:
    found = unpack_properties(pack(encode({"a": math.nan})))["a"]
    assert isinstance(found, float)
    assert math.isnan(found)


def test_empty_folders_are_left_out() -> None:
    assert unpack(pack(["", FOLDER, "    "])) == [FOLDER]


# What it costs


def test_twice_as_many_properties_are_twice_the_work() -> None:
    def effort(count: int) -> Effort:
        packed = pack(["<usr>" + "<a dt='i4'>1</a><g><b>&lt;</b></g>" * count + "</usr>"])
        return Effort.of(unpack_properties, packed)

    assert effort(1000).at_most(2.2, effort(500))


def test_a_long_name_of_a_group_is_not_copied_for_each_property_without_end() -> None:
    name = "g" * NAME_LENGTH_MAX
    assert reason_of(f"<usr><{name}>" + "<a>1</a>" * 10 + f"</{name}></usr>") == MQRC.RFH_FORMAT_ERROR


def test_so_many_properties_and_groups_may_be_read_as_one_says() -> None:
    texts = ["<usr><a>1</a><g><b>2</b></g></usr>", "<mcd><c/></mcd>"]
    assert decode(texts, 4) == {"a": "1", "usr.g.b": "2", "mcd.c": ""}
    with pytest.raises(MQError) as caught:
        decode(texts, 3)
    assert caught.value.reason == MQRC.PROPERTIES_TOO_BIG


def test_attributes_count_but_for_the_type() -> None:
    assert decode(["<usr><a dt='i4'>1</a><b x='1' y='2'>2</b></usr>"], 4) == {"a": 1, "b": "2"}
    with pytest.raises(MQError) as caught:
        decode(["<usr><a dt='i4'>1</a><b x='1' x='2'>2</b></usr>"], 3)
    assert caught.value.reason == MQRC.PROPERTIES_TOO_BIG


def test_a_header_has_so_many_folders_at_most() -> None:
    data = MQRFH2((FOLDER,) * FOLDERS_MAX).to_bytes()
    assert len(MQRFH2.from_bytes(data)[0].folders) == FOLDERS_MAX
    with pytest.raises(MQError) as caught:
        MQRFH2.from_bytes(MQRFH2((FOLDER,) * (FOLDERS_MAX + 1)).to_bytes())
    assert caught.value.reason == MQRC.RFH_ERROR


def test_a_header_is_read_where_it_begins() -> None:
    header = MQRFH2((FOLDER,), "MQSTR", 273, 819, 7)
    data = header.to_bytes("big")
    assert MQRFH2.from_bytes(b"before" + data + b"behind", "big", 6) == (header, len(data))
