"""Coded character set identifiers (CCSID) and the codecs that know them.

The identifiers are IBM's; the codecs are Python's. A CCSID that is not in the table cannot be converted.
"""

from __future__ import annotations

UTF_8 = "utf_8"
UTF_16 = "utf_16"
"""Of two byte orders: that of the message's integers."""

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
    1200: UTF_16,
    1208: UTF_8,
    1386: "gbk",
    1392: "gb18030",
    5348: "cp1252",
    5488: "gb18030",
    13488: UTF_16,
    17584: UTF_16,
}
_OF_THE_SAME_NUMBER = (
    37, 273, 424, 437, 500, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 875, 1026, 1140,
    1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258,
)  # fmt: skip
_CODECS |= {ccsid: f"cp{ccsid:03}" for ccsid in _OF_THE_SAME_NUMBER}


def codec_of(ccsid: int) -> str | None:
    """The codec of a character set; None for one that is not known. UTF_16 is to be completed by a byte order."""
    return _CODECS.get(ccsid)
