"""The EBCDIC pages that Python does not have: against published mappings, against Python's own, and there and back."""

from __future__ import annotations

import hashlib

import pytest

from broker.mqi.layouts.code_pages import code_page
from broker.mqi.layouts.ebcdic import TABLES

ALL_BYTES = bytes(range(256))
LATIN_1 = set(ALL_BYTES.decode("latin_1"))
WITH_EURO = {1141: 273, 1142: 277, 1143: 278, 1144: 280, 1145: 284, 1146: 285, 1147: 297, 1148: 500, 1149: 871}
INVARIANT = " \"%&'()*+,-./0123456789:;<=>?ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

PUBLISHED = {
    1025: "a6bf28b31a7b8f0f",
    1047: "8de86c03cef4969f",
    1141: "7912219000d36b1f",
    1142: "50c86a25706aeee3",
    1143: "966c4449dc4589f3",
    1144: "a7353683012ed84a",
    1145: "372622cdaf223f22",
    1146: "8a778aaacbc98cd8",
    1147: "be705915262d71f0",
    1148: "45c477b7e5f439a6",
    1149: "094ee13c56fb9091",
}
"""The beginning of the SHA-256 of what `iconv -f IBM1141 -t UTF-16BE` (for 1025, CP1025) of the GNU C library makes of
the 256 bytes.
"""


def characters(ccsid: int) -> str:
    page = code_page(ccsid)
    assert page is not None
    return page.decode(ALL_BYTES)


def differences(before: str, after: str) -> list[str]:
    return [f"{one}{other}" for one, other in zip(before, after, strict=True) if one != other]


@pytest.mark.parametrize("ccsid", TABLES)
def test_every_byte_stands_for_a_character_of_its_own_and_comes_back(ccsid: int) -> None:
    page = code_page(ccsid)
    assert page is not None
    text = page.decode(ALL_BYTES)
    assert len(set(text)) == len(text) == 256
    assert page.encode(text) == ALL_BYTES


@pytest.mark.parametrize("ccsid", PUBLISHED)
def test_the_pages_are_those_that_were_published(ccsid: int) -> None:
    digest = hashlib.sha256(characters(ccsid).encode("utf_16_be")).hexdigest()
    assert digest.startswith(PUBLISHED[ccsid])


@pytest.mark.parametrize(("ccsid", "before"), WITH_EURO.items())
def test_a_page_with_the_euro_has_it_where_the_page_before_has_the_currency_sign(ccsid: int, before: int) -> None:
    assert differences(characters(before), characters(ccsid)) == ["¤€"]
    assert set(characters(before)) == LATIN_1


def test_pythons_own_pages_are_related_in_the_same_way() -> None:
    assert differences(ALL_BYTES.decode("cp037"), ALL_BYTES.decode("cp1140")) == ["¤€"]
    assert differences(ALL_BYTES.decode("cp500"), characters(1148)) == ["¤€"]
    assert differences(ALL_BYTES.decode("cp273"), characters(273)) == ["\u203e¯"]  # an overline, which is not Latin-1


@pytest.mark.parametrize("ccsid", TABLES)
def test_what_all_ebcdic_pages_have_stands_where_it_stands_in_all(ccsid: int) -> None:
    page, python = code_page(ccsid), code_page(500)
    assert page is not None
    assert python is not None
    assert page.encode(INVARIANT) == python.encode(INVARIANT)
    assert characters(ccsid)[:0x40] == characters(500)[:0x40]  # the control characters


def test_1025_has_the_characters_of_iso_8859_5() -> None:
    assert set(characters(1025)) == set(ALL_BYTES.decode("iso8859_5"))


def test_the_brackets_of_1047_are_where_c_programs_on_the_mainframe_have_them() -> None:
    page = code_page(1047)
    assert page is not None
    assert page.encode("a[1] ^ b") == bytes.fromhex("81 AD F1 BD 40 5F 40 82")


def test_a_character_that_a_page_does_not_have_is_a_question_mark() -> None:
    page = code_page(277)
    assert page is not None
    assert page.encode("5 €, 日本") == page.encode("5 ?, ??")


def test_an_identifier_of_nothing_is_not_known() -> None:
    assert [code_page(ccsid) for ccsid in (0, -2, 930, 1390, 65535)] == [None] * 5
