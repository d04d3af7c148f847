"""User properties in headers (rest 3.1): read, written, and those that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.http.rest.messaging.user_properties import properties_in, properties_out
from broker.http.rest.messaging.versions import InvalidValueError
from broker.mqi.layouts.folders import TypedValue, decode_typed, encode

SAMPLES = [
    ("myProp1;5;i1", {"myProp1": TypedValue("i1", 5)}),
    (
        'myProp1;5;i1, myProp2;"My String";string',
        {"myProp1": TypedValue("i1", 5), "myProp2": TypedValue("string", "My String")},
    ),
    ("a;-32768;i2", {"a": TypedValue("i2", -32768)}),
    ("a;2147483647;i4", {"a": TypedValue("i4", 2147483647)}),
    ("a;-9223372036854775808;i8", {"a": TypedValue("i8", -9223372036854775808)}),
    ("a;2.5;r4", {"a": TypedValue("r4", 2.5)}),
    ("a;-INF;r8", {"a": TypedValue("r8", float("-inf"))}),
    ("a;true;boolean, b;0;boolean", {"a": TypedValue("boolean", True), "b": TypedValue("boolean", False)}),
    ('a;"";string', {"a": TypedValue("string", "")}),
    ('a;"x;y, z";string', {"a": TypedValue("string", "x;y, z")}),
    (r'a;"\"\\\n\u00e4";string', {"a": TypedValue("string", '"\\\nä')}),
    (" a ; 1 ; i4 ,\tb;2;i4 ", {"a": TypedValue("i4", 1), "b": TypedValue("i4", 2)}),
]


@pytest.mark.parametrize(("text", "properties"), SAMPLES)
def test_rest_3_1_properties_are_read(text: str, properties: dict[str, TypedValue]) -> None:
    assert properties_in(text) == properties
    assert properties_in(properties_out(properties)) == properties


def test_rest_3_1_properties_are_written_as_name_value_type() -> None:
    assert properties_out(properties_in('n;5;i1, s;"My \\"String\\"";string, b;1;boolean, r;0.5;r8')) == (
        'n;5;i1, s;"My \\"String\\"";string, b;true;boolean, r;0.5;r8'
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a;1", "a;1;", "a;1;i4,", "a;1;i4 b;2;i4", ";1;i4", "1a;1;i4", "a b;1;i4", "a.b;1;i4", "a;128;i1",
        "a;32768;i2", "a;2147483648;i4", "a;9223372036854775808;i8", "a;1e5;i4", "a;x;r8", "a;maybe;boolean", "a;1;int",
        "a;1;string", 'a;"1";i4', 'a;"x;string', 'a;"\\x";string', "a;1;i4, a;2;i4", "AND;1;i4", "JMSType;1;i4",
        'a;"\\ud800";string', "a;;i4", "a;1_0;i4", "a;NAN;r8", "a;1;bin.hex",
    ],
)  # fmt: skip
def test_rest_3_1_what_is_no_property_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        properties_in(text)
    assert caught.value.name == "ibm-mq-usr"


def test_rest_3_1_bytes_and_nulls_have_no_text_in_a_header() -> None:
    assert properties_out({"a": TypedValue("bin.hex", b"x"), "b": TypedValue("string", None)}) == ""


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
VALUES = st.one_of(
    TEXTS.map(lambda text: TypedValue("string", text)),
    st.booleans().map(lambda value: TypedValue("boolean", value)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: TypedValue("i8", value)),
    st.floats(allow_nan=False).map(lambda value: TypedValue("r8", value)),
)


@given(st.dictionaries(st.from_regex(r"[a-z$_][A-Za-z0-9_$]{0,10}_", fullmatch=True), VALUES, min_size=1, max_size=5))
def test_rest_3_1_whatever_the_values_a_header_and_folders_bring_them_back(properties: dict[str, TypedValue]) -> None:
    text = properties_out(properties)
    assert text.isascii()
    assert text.isprintable()
    assert properties_in(text) == properties
    assert decode_typed(encode(properties)) == properties


def test_rest_3_1_names_beyond_ascii_are_escaped() -> None:
    assert properties_out({"größe": TypedValue("i4", 1)}) == "gr\\u00f6\\u00dfe;1;i4"
