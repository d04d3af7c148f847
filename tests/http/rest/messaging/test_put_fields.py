"""The headers of a put (rest 3 and 10): their values in the terms of the MQI, and those that are none."""

from __future__ import annotations

from typing import Any

import pytest

from broker.http.rest.messaging.identifiers import CorrelationId
from broker.http.rest.messaging.put_fields import PutFields, check_content_type, put_fields
from broker.http.rest.messaging.versions import InvalidValueError, RestVersion
from broker.mqi import MQCI_NONE, MQRFH2
from broker.mqi.layouts.folders import TypedValue

V1, V2, V3 = RestVersion
HEX = "414d5120514d312020202020202020203bb661456ac580f4"
ID = bytes.fromhex(HEX)
ALL = (V1, V2, V3)


def fields(version: RestVersion, *headers: tuple[str, str]) -> PutFields:
    return put_fields(version, [(name.lower().encode(), value.encode()) for name, value in headers])


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize(
    ("header", "value", "field", "stored"),
    [
        ("ibm-mq-md-expiry", "unlimited", "expiry", -1),
        ("ibm-mq-md-expiry", "0", "expiry", 1),
        ("ibm-mq-md-expiry", "1", "expiry", 1),
        ("ibm-mq-md-expiry", "100", "expiry", 1),
        ("ibm-mq-md-expiry", "101", "expiry", 2),
        ("ibm-mq-md-expiry", "60000", "expiry", 600),
        ("ibm-mq-md-expiry", "99999999900", "expiry", 999_999_999),
        ("ibm-mq-md-persistence", "nonPersistent", "persistence", 0),
        ("ibm-mq-md-persistence", "persistent", "persistence", 1),
        ("ibm-mq-md-replyTo", "R", "reply_to_q", "R"),
        ("ibm-mq-md-replyTo", "R@QM2", "reply_to_q_mgr", "QM2"),
    ],
)
def test_rest_10_headers_are_stored_by_the_tables(
    version: RestVersion, header: str, value: str, field: str, stored: object
) -> None:
    assert getattr(fields(version, (header, value)), field) == stored


def test_rest_10_without_headers_a_message_is_nonpersistent_without_end_and_of_the_priority_of_its_queue() -> None:
    assert fields(V2) == PutFields(expiry=-1, persistence=0, priority=-1)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ibm-mq-md-expiry", "-1"),
        ("ibm-mq-md-expiry", "1.5"),
        ("ibm-mq-md-expiry", "99999999901"),
        ("ibm-mq-md-expiry", "Unlimited"),
        ("ibm-mq-md-expiry", ""),
        ("ibm-mq-md-expiry", "\N{ARABIC-INDIC DIGIT THREE}"),
        ("ibm-mq-md-persistence", "1"),
        ("ibm-mq-md-persistence", "Persistent"),
        ("ibm-mq-md-priority", "10"),
        ("ibm-mq-md-priority", "-1"),
        ("ibm-mq-md-priority", ""),
        ("ibm-mq-md-priority", "\N{SUPERSCRIPT TWO}"),
        ("ibm-mq-md-replyTo", "@QM2"),
        ("ibm-mq-md-replyTo", "R@"),
        ("ibm-mq-md-replyTo", "R R"),
        ("ibm-mq-md-replyTo", "R" * 49),
        ("ibm-mq-md-replyTo", "R@A@B"),
        ("ibm-mq-md-correlationId", f"ID:{HEX[1:]}"),
        ("ibm-mq-md-correlationId", f"ID:{HEX}00"),
        ("ibm-mq-md-correlationId", "ID:"),
        ("ibm-mq-md-correlationId", ""),
    ],
)
def test_rest_3_values_that_are_none_are_refused_by_name(header: str, value: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        fields(V3, (header, value))
    assert caught.value.name == header


@pytest.mark.parametrize(
    ("version", "value", "found"),
    [
        (V1, HEX, CorrelationId(ID)),
        (V2, HEX.upper(), CorrelationId(ID)),
        (V2, HEX[1:], None),
        (V2, f"ID:{HEX}", None),
        (V2, "order-7", None),
        (V2, "zz" + HEX[2:], None),
        (V2, HEX[:23] + "  " + HEX[25:], None),
        (V3, f"ID:{HEX}", CorrelationId(ID)),
        (V3, "order-7", CorrelationId(b"order-7".ljust(24, b"\0"), "order-7")),
        (V3, HEX, CorrelationId(HEX[:24].encode(), HEX)),
        (V3, "\N{LATIN SMALL LETTER A WITH DIAERESIS}" * 13, CorrelationId("ä".encode() * 12, "ä" * 13)),
    ],
)
def test_rest_3_a_correlation_id_is_bytes_or_from_version_3_on_a_string(
    version: RestVersion, value: str, found: CorrelationId | None
) -> None:
    header = ("ibm-mq-md-correlationId", value)
    if found is None:
        with pytest.raises(InvalidValueError):
            fields(version, header)
    else:
        assert fields(version, header).correlation == found


def test_rest_3_a_priority_counts_from_version_3_on() -> None:
    assert fields(V3, ("ibm-mq-md-priority", "7")).priority == 7
    assert fields(V3, ("ibm-mq-md-priority", "asDestination")).priority == -1
    for version in (V1, V2):
        assert fields(version, ("ibm-mq-md-priority", "7")).priority == -1
        assert fields(version, ("ibm-mq-md-priority", "seven")).priority == -1


def test_rest_3_a_header_that_is_there_twice_is_refused() -> None:
    twice = ("ibm-mq-md-expiry", "1000")
    with pytest.raises(InvalidValueError, match="twice"):
        fields(V2, twice, twice)


def test_rest_3_a_text_is_mqstr_in_utf_8() -> None:
    md, data = PutFields().message("Q", b"Hello")
    assert (md.format, md.coded_char_set_id, md.msg_type, md.correl_id) == ("MQSTR", 1208, 8, MQCI_NONE)
    assert data == b"Hello"


def test_rest_3_a_reply_to_queue_makes_it_a_request() -> None:
    assert PutFields(reply_to_q="R").message("Q", b"")[0].msg_type == 1


def test_rest_3_user_properties_make_a_jms_text_message() -> None:
    usr = ("ibm-mq-usr", 'n;5;i1, colour;"red";string')
    md, data = fields(V3, usr, ("ibm-mq-md-correlationId", "order-7"), ("ibm-mq-md-replyTo", "R@QM2")).message(
        "Q", b"x"
    )
    header, length = MQRFH2.from_bytes(data)
    assert (md.format, header.format, header.coded_char_set_id, data[length:]) == ("MQHRF2", "MQSTR", 1208, b"x")
    assert header.folders == (
        "<mcd><Msd>jms_text</Msd></mcd>",
        "<jms><Dst>queue:///Q</Dst><Rto>queue://QM2/R</Rto><Cid>order-7</Cid><Dlv dt='i4'>1</Dlv></jms>",
        "<usr><n dt='i1'>5</n><colour>red</colour></usr>",
    )


def test_rest_3_user_properties_of_older_versions_count_for_nothing() -> None:
    assert not fields(V2, ("ibm-mq-usr", "no syntax at all"), ("ibm-mq-usr-a", "b")).is_jms


def test_rest_3_1_properties_come_in_one_header_in_several_and_by_their_names() -> None:
    found = fields(V3, ("ibm-mq-usr", "a;1;i4, b;2;i8"), ("ibm-mq-usr", "c;true;boolean"), ("ibm-mq-usr-d", "e, f;g"))
    assert found.properties == {
        "a": TypedValue("i4", 1),
        "b": TypedValue("i8", 2),
        "c": TypedValue("boolean", True),
        "d": TypedValue("string", "e, f;g"),
    }
    with pytest.raises(InvalidValueError, match="twice"):
        fields(V3, ("ibm-mq-usr", "a;1;i4"), ("ibm-mq-usr-a", "1"))


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("text/plain", True),
        ("text/plain;charset=utf-8", True),
        ('Text/HTML; Charset="UTF-8"', True),
        ("text/xml", True),
        ("application/json;charset=utf-8", True),
        ("application/xml", True),
        ("text/plain;charset=iso-8859-1", False),
        ("application/octet-stream", False),
        ("text/plain, text/html", False),
        ("", False),
        (None, False),
    ],
)
def test_rest_3_content_types(value: str | None, good: bool) -> None:
    assert check_content_type(value) is good


def test_headers_that_are_no_utf_8_are_latin_1() -> None:
    usr: Any = [(b"ibm-mq-usr", b'a;"\xe4";string')]
    assert put_fields(V3, usr).properties == {"a": TypedValue("string", "ä")}
