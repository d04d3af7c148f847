"""Coded character set identifiers (CCSID) and the codecs that know them.

The identifiers are IBM's; the codecs are Python's, or made of the tables of `broker.mqi.layouts.ebcdic`. A CCSID
that is in neither cannot be converted.
"""

from __future__ import annotations

import codecs

from broker.mqi.constants.descriptor import UTF_8
from broker.mqi.layouts.ebcdic import TABLES


class CodePage:
    """A character set: its codec by the name that Python knows, or by the characters of its 256 bytes."""

    def __init__(self, name: str, table: str = "") -> None:
        self.name = name
        self._table = table
        self._bytes = codecs.charmap_build(table) if table else None

    def decode(self, data: bytes) -> str:
        """The characters; raises UnicodeDecodeError."""
        return codecs.charmap_decode(data, "strict", self._table)[0] if self._table else data.decode(self.name)

    def encode(self, text: str) -> bytes:
        """The bytes, with a question mark for each character that the set does not have."""
        if self._bytes is not None:
            return codecs.charmap_encode(text, "replace", self._bytes)[0]
        return text.encode(self.name, "replace")


UTF_16 = CodePage("utf_16")
"""Of two byte orders: that of the message's integers."""

UTF_16_ORDERED = {"<": CodePage("utf_16_le"), ">": CodePage("utf_16_be")}
_UTF_16 = (1200, 13488, 17584)
_INTEGER_MASK = 0xF
_REVERSED = 2  # MQENC_INTEGER_REVERSED

_CODECS = {
    367: "ascii",
    813: "iso8859_7",
    819: "latin_1",
    874: "cp874",
    878: "koi8_r",
    912: "iso8859_2",
    914: "iso8859_4",
    915: "iso8859_5",
    916: "iso8859_8",
    920: "iso8859_9",
    921: "iso8859_13",
    923: "iso8859_15",
    932: "cp932",
    943: "cp932",
    949: "cp949",
    950: "cp950",
    954: "euc_jp",
    970: "euc_kr",
    1089: "iso8859_6",
    1168: "koi8_u",
    UTF_8: "utf_8",
    1386: "gbk",
    1392: "gb18030",
    5348: "cp1252",
    5488: "gb18030",
}
_OF_THE_SAME_NUMBER = (
    37, 424, 437, 500, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 875, 1026, 1140,
    1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258,
)  # fmt: skip
_CODECS |= {ccsid: f"cp{ccsid:03}" for ccsid in _OF_THE_SAME_NUMBER}

_PAGES = {ccsid: CodePage(name) for ccsid, name in _CODECS.items()}
_PAGES |= {ccsid: CodePage(f"cp{ccsid:03}", table) for ccsid, table in TABLES.items()}
_PAGES |= dict.fromkeys(_UTF_16, UTF_16)


def code_page(ccsid: int) -> CodePage | None:
    """The character set with this identifier; None for one that is not known. UTF_16 is one of `UTF_16_ORDERED`."""
    return _PAGES.get(ccsid)


def not_known(ccsid: int) -> str:
    """Return the text of the error for a coded character set that `code_page` does not find."""
    return f"coded character set {ccsid} is not known"


def characters(data: bytes, ccsid: int, encoding: int) -> str:
    """The text that `data` is, by the CodedCharSetId and the Encoding of its message.

    Raises LookupError for a coded character set that is not known, UnicodeDecodeError for data that is not in it.
    """
    if ccsid == UTF_8:
        return data.decode()
    page = code_page(ccsid)
    if page is None:
        raise LookupError(not_known(ccsid))
    if page is UTF_16:
        page = UTF_16_ORDERED["<" if encoding & _INTEGER_MASK == _REVERSED else ">"]
    return page.decode(data)
