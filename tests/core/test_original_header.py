"""MQRFH2s taken apart at the put, and put together again byte for byte, whatever chain of them a program has made."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.message.headers import original_header, properties
from broker.core.message.headers.properties import FORMAT, HEADERS_MAX, PROPERTIES_MAX, take_properties
from broker.mqi import MQMF, MQRC, MessageDescriptor, MQError
from broker.mqi.layouts import folders
from broker.mqi.layouts.rfh2 import FOLDERS_MAX, LENGTH_FIXED, MQRFH2, pack, unpack
from tests.core.effort import Effort
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Sequence

USR = "<usr><colour>red</colour></usr>"
PSC = "<psc><Command>Publish</Command></psc>"
LITTLE, BIG = 546, 273
UTF_8, UTF_16 = 1208, 1200
DATA = b"the data"


def header(
    encoding: int, *texts: str, behind: tuple[int, int, str], names: int = UTF_8, pad: bytes = b" ", flags: int = 0
) -> bytes:
    """A header as a program may write it."""
    order, codec = ("<", "utf_16_le") if encoding == LITTLE else (">", "utf_16_be")
    body = b""
    for text in texts:
        written = text.encode("utf_8" if names == UTF_8 else codec)
        if names != UTF_8:
            pad = " ".encode(codec)
        written += pad * (-len(written) % 4 // len(pad))
        body += struct.pack(f"{order}i", len(written)) + written
    fixed = struct.pack(
        f"{order}4siiii8sii",
        b"RFH ",
        2,
        36 + len(body),
        behind[0],
        behind[1],
        behind[2].ljust(8).encode(),
        flags,
        names,
    )
    return fixed + body


def taken(
    data: bytes, encoding: int = LITTLE, ccsid: int = UTF_8, **limits: int
) -> tuple[MessageDescriptor, bytes, bytes]:
    """Return the rest of the data of a put, and its properties."""
    md = MessageDescriptor(format=FORMAT, encoding=encoding, coded_char_set_id=ccsid)
    given = {"length_max": len(data), "properties_max": -1, "own_ccsid": 819} | limits
    return take_properties(md, data, **given)


def mapping(packed: bytes) -> dict[str, folders.Value]:
    return dict(properties.decoded(packed))


def reason_of(data: bytes, **limits: int) -> int:
    with pytest.raises(MQError) as caught:
        taken(data, **limits)
    return caught.value.reason


def test_folders_without_properties_stay_under_the_header_that_they_came_in() -> None:
    data = header(BIG, USR, PSC, "<mcd><Msd>x</Msd></mcd>", behind=(LITTLE, 819, "MQSTR"), flags=7) + DATA
    md, stays, packed = taken(data, BIG)
    assert stays == header(BIG, PSC, behind=(LITTLE, 819, "MQSTR"), flags=7) + DATA
    assert (md.format, md.encoding, md.coded_char_set_id) == (FORMAT, BIG, UTF_8)
    assert mapping(packed) == {"colour": "red", "mcd.Msd": "x"}
    assert original_header.restored(packed, stays) == data
    assert PSC.encode() not in packed


def test_a_header_that_loses_all_its_folders_goes_and_the_one_before_it_says_what_is_behind() -> None:
    first = header(LITTLE, PSC, behind=(BIG, 819, FORMAT))
    second = header(BIG, USR, behind=(LITTLE, -2, "MQSTR"))
    md, stays, packed = taken(first + second + DATA)
    assert stays == header(LITTLE, PSC, behind=(LITTLE, 819, "MQSTR")) + DATA
    assert (md.format, md.encoding, md.coded_char_set_id) == (FORMAT, LITTLE, UTF_8)
    assert original_header.restored(packed, stays) == first + second + DATA


def test_a_header_that_goes_before_another_leaves_its_description_to_the_descriptor() -> None:
    first = header(LITTLE, USR, behind=(BIG, 500, FORMAT))
    second = header(BIG, PSC, behind=(LITTLE, -2, "MQSTR"))
    md, stays, packed = taken(first + second + DATA)
    assert stays == second + DATA
    assert (md.format, md.encoding, md.coded_char_set_id) == (FORMAT, BIG, 500)
    assert original_header.restored(packed, stays) == first + second + DATA


def test_headers_between_which_none_goes_stay_as_they_are() -> None:
    first = header(LITTLE, PSC, behind=(BIG, -2, FORMAT))
    second = header(BIG, PSC, behind=(LITTLE, -2, FORMAT))
    last = header(LITTLE, USR, behind=(BIG, -2, "MQSTR"))
    _, stays, packed = taken(first + second + last + DATA)
    assert stays == first + header(BIG, PSC, behind=(BIG, UTF_8, "MQSTR")) + DATA
    assert original_header.restored(packed, stays) == first + second + last + DATA


def test_without_properties_the_data_stay_as_they_were_put() -> None:
    data = header(LITTLE, PSC, behind=(BIG, -2, FORMAT)) + header(BIG, behind=(LITTLE, -2, "MQSTR")) + DATA
    md, stays, packed = taken(data)
    assert (stays, packed, md.format) == (data, b"", FORMAT)


def test_a_header_without_folders_is_taken_off_and_remembered() -> None:
    data = header(BIG, behind=(LITTLE, 819, "MQSTR")) + DATA
    md, stays, packed = taken(data, BIG)
    assert (stays, md.format, mapping(packed)) == (DATA, "MQSTR", {})
    assert original_header.restored(packed, stays) == data


def test_what_was_made_of_properties_is_kept_as_folders_alone() -> None:
    made = MQRFH2((USR,), "MQSTR", LITTLE, -3).to_bytes()
    md, stays, packed = taken(made + DATA)
    assert (stays, packed, md.coded_char_set_id) == (DATA, pack([USR]), UTF_8)


def test_properties_beside_a_header_make_all_of_it_folders() -> None:
    made = MQRFH2(("<usr><n dt='i4'>5</n></usr>",), FORMAT, BIG, -3).to_bytes()
    by_hand = header(BIG, USR, PSC, behind=(LITTLE, 819, "MQSTR"))
    md, stays, packed = taken(made + by_hand + DATA)
    assert unpack(packed) == ["<usr><n dt='i4'>5</n></usr>", USR]
    assert stays == header(BIG, PSC, behind=(LITTLE, 819, "MQSTR")) + DATA
    assert (md.format, md.encoding) == (FORMAT, BIG)


def test_the_queue_managers_character_set_is_that_of_a_put_that_names_none() -> None:
    _, _, packed = taken(header(LITTLE, USR, behind=(LITTLE, -2, "")), ccsid=0)
    found = original_header.original(packed)
    assert found is not None
    assert (found.encoding, found.coded_char_set_id, found.replaces) == (LITTLE, 819, 0)


TEXTS = st.lists(
    st.sampled_from(
        [USR, PSC, "<mcd><Msd>jms_text</Msd></mcd>", "<pscr/>", "", "<wmq content='properties'/>", "<usr>\n</usr>"]
    ),
    max_size=4,
)
CHAIN = st.lists(
    st.tuples(
        st.sampled_from([LITTLE, BIG]), TEXTS, st.sampled_from([UTF_8, UTF_16]), st.sampled_from([b" ", b"\0"]),
        st.sampled_from([-2, 0, 819, 500]), st.integers(-5, 5),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@tries(300)
@given(CHAIN, st.sampled_from(["MQSTR", "", "MYFORMAT"]))
def test_every_chain_comes_back_as_it_was(
    chain: Sequence[tuple[int, list[str], int, bytes, int, int]], format: str
) -> None:
    data = b""
    for number, (encoding, texts, names, pad, ccsid, flags) in enumerate(chain):
        behind = (chain[number + 1][0], ccsid, FORMAT) if number + 1 < len(chain) else (LITTLE, ccsid, format)
        data += header(encoding, *texts, behind=behind, names=names, pad=pad, flags=flags)
    data += DATA
    md, stays, packed = taken(data, chain[0][0])
    if not packed:
        assert stays == data
        return
    found = original_header.original(packed)
    assert found is not None
    assert (found.length, found.replaces) == (len(data) - len(DATA), len(stays) - len(DATA))
    assert (found.encoding, found.coded_char_set_id) == (chain[0][0], UTF_8)
    assert original_header.restored(packed, stays) == data
    texts = [text for _, texts, *_ in chain for text in texts if text and folders.read(text).holds_properties]
    assert original_header.folders(packed) == texts
    again, still, nothing = take_properties(md, stays, len(stays), -1, 819) if md.format == FORMAT else (md, stays, b"")
    assert (again.format, still, nothing) == (md.format, stays, b"")  # what stays is a chain that is right in itself


@tries(300)
@example(b"", 135, b"\xfd", False)
@given(st.binary(max_size=120), st.integers(0, 300), st.binary(max_size=8), st.booleans())
def test_no_bytes_do_harm(data: bytes, where: int, change: bytes, big: bool) -> None:
    order = BIG if big else LITTLE
    whole = header(order, USR, PSC, behind=(BIG, -2, FORMAT)) + header(BIG, PSC, USR, behind=(LITTLE, -2, "")) + DATA
    for attempt in (data, whole[:where] + change + whole[where + len(change) :]):
        try:
            _, stays, packed = taken(attempt, order)
        except MQError as error:
            assert error.reason in (MQRC.RFH_ERROR, MQRC.RFH_FORMAT_ERROR)
        else:
            if packed and original_header.original(packed) is None:  # CodedCharSetId -3: made of properties, it says
                assert unpack(packed) == [USR, USR]
            else:
                assert (original_header.restored(packed, stays) if packed else stays) == attempt


# What it costs


def test_twice_the_chain_is_twice_the_work() -> None:
    def effort(count: int) -> Effort:
        data = header(LITTLE, USR, behind=(LITTLE, -2, FORMAT)) * count + header(LITTLE, PSC, behind=(LITTLE, -2, ""))
        return Effort.of(taken, data)

    assert effort(80).at_most(2.2, effort(40))


def test_a_chain_has_an_end() -> None:
    link = header(LITTLE, behind=(LITTLE, -2, FORMAT))
    last = header(LITTLE, USR, behind=(LITTLE, -2, ""))
    assert mapping(taken(link * (HEADERS_MAX - 1) + last)[2]) == {"colour": "red"}
    assert reason_of(link * HEADERS_MAX + last) == MQRC.RFH_ERROR


def test_all_headers_together_have_so_many_folders_at_most() -> None:
    link = header(LITTLE, *[PSC] * (FOLDERS_MAX // 2), behind=(LITTLE, -2, FORMAT))
    assert taken(link + header(LITTLE, *[USR] * (FOLDERS_MAX // 2), behind=(LITTLE, -2, "")))[2]
    assert reason_of(link + header(LITTLE, *[USR] * (FOLDERS_MAX // 2 + 1), behind=(LITTLE, -2, ""))) == MQRC.RFH_ERROR


def test_a_message_has_so_many_properties_at_most() -> None:
    def of(count: int) -> bytes:
        return header(LITTLE, "<usr>" + "<a>1</a>" * count + "</usr>", behind=(LITTLE, -2, ""))

    assert mapping(taken(of(PROPERTIES_MAX))[2]) == {"a": "1"}
    assert reason_of(of(PROPERTIES_MAX + 1)) == MQRC.PROPERTIES_TOO_BIG


def test_data_that_are_too_long_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    data = header(LITTLE, "<usr>broken", behind=(LITTLE, -2, "")) + b"x" * 100
    assert taken(data, length_max=99)[1:] == (data, b"")
    assert reason_of(data, length_max=100) == MQRC.RFH_FORMAT_ERROR


def test_maxpropl_counts_folders_as_they_were_put_before_they_are_read() -> None:
    data = header(LITTLE, "<usr>broken", PSC, behind=(LITTLE, -2, ""))
    assert reason_of(data, properties_max=15) == MQRC.PROPERTIES_TOO_BIG
    assert reason_of(data, properties_max=16) == MQRC.RFH_FORMAT_ERROR
    padded = header(LITTLE, USR + " " * 1000, behind=(LITTLE, -2, ""))
    assert reason_of(padded, properties_max=1000) == MQRC.PROPERTIES_TOO_BIG


def test_a_header_costs_little_more_memory_than_its_properties() -> None:
    left = "<psc>" + "x" * 100_000 + "</psc>"
    _, _, packed = taken(header(LITTLE, USR, left, behind=(LITTLE, -2, "")))
    assert len(packed) <= LENGTH_FIXED + len(pack([USR])) + 24


def test_a_segment_without_a_header_is_left_alone() -> None:
    md = MessageDescriptor(format=FORMAT, msg_flags=MQMF.SEGMENT)
    assert take_properties(md, DATA, 100, -1, 819) == (md, DATA, b"")
