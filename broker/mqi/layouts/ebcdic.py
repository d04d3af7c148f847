"""EBCDIC code pages that Python has no codec for, as tables of the character that each of the 256 bytes stands for.

Of the Latin ones IBM publishes one international page, 500, and national pages that use some twenty places otherwise;
what stands here are these places. The pages with the euro sign have it where the page before it has the currency sign.
The tables agree with the GNU C library's IBM1047, CP1025 and IBM1141 to IBM1149, which are IBM's own, and with the
mappings of ICU (`ibm-278_P100-1995.ucm`, for one). The C library's older IBM278, IBM285 and IBM871, and Python's cp273,
differ from IBM's in one or two characters each.
"""

from __future__ import annotations

_INTERNATIONAL = bytes(range(256)).decode("cp500")
_CURRENCY, _EURO = "¤", "€"

_NATIONAL = {
    273: "43{ 4AÄ 59~ 5AÜ 63[ 6Aö 7C§ A1ß B5@ C0ä CC¦ D0ü DC} E0Ö EC\\ FC]",
    277: "47} 4A# 5A¤ 5BÅ 67$ 6Aø 70¦ 7BÆ 7CØ 80@ 9C{ 9E[ 9F] A1ü C0æ D0å DC~",
    278: "43{ 47} 4A§ 51` 5A¤ 5BÅ 63# 67$ 6Aö 71\\ 79é 7BÄ 7CÖ 9F] A1ü B5[ C0ä CC¦ D0å DC~ E0É EC@",
    280: "44{ 48\\ 4A° 51] 54} 58~ 5Aé 6Aò 79ù 7B£ 7C§ 90[ A1ì B1# B5@ C0à CD¦ D0è DD` E0ç",
    284: "49¦ 4F| 5F¬ 69# 6Añ 7BÑ A1¨ BA^ BB! BD~",
    285: "4A$ 4F| 5A! 5B£ 5F¬ A1¯ B1[ BA^ BB] BC~",
    297: "44@ 48\\ 4A° 51{ 54} 5A§ 6Aù 79µ 7B£ 7Cà 90[ A0` A1¨ B1# B5] BD~ C0é D0è DD¦ E0ç",
    871: "4AÞ 5AÆ 5FÖ 79ð 7CÐ 8C` 8E{ 9C} 9E] A1ö AC@ AE[ BE\\ C0þ CC~ D0æ E0´ EC^",
    1047: "4A¢ 4F| 5A! AD[ B0¬ BAÝ BB¨ BD]",
}
"""By CCSID: the places, in hexadecimal, where a page has another character than page 500."""

_WITH_EURO = {1141: 273, 1142: 277, 1143: 278, 1144: 280, 1145: 284, 1146: 285, 1147: 297, 1148: 500, 1149: 871}

_CYRILLIC = (  # of 1025, from 40 on
    " \xa0ђѓёєѕіїј[.<(+!&љњћќўџЪ№Ђ]$*);^-/ЃЁЄЅІЇЈЉ|,%_>?ЊЋЌ\xadЎЏюаб`:#@'=\""
    "цabcdefghiдефгхийjklmnopqrклмнопя~stuvwxyzрстужвьызшэщчъ"
    "ЮАБЦДЕФГ{ABCDEFGHIХИЙКЛМ}JKLMNOPQRНОПЯРС\\§STUVWXYZТУЖВЬЫ0123456789ЗШЭЩЧ\x9f"
)


def _national(places: str) -> str:
    """The page that differs from the international one in these places."""
    table = list(_INTERNATIONAL)
    for place in places.split(" "):
        table[int(place[:2], 16)] = place[2:]
    return "".join(table)


TABLES = {ccsid: _national(places) for ccsid, places in _NATIONAL.items()}
TABLES[1025] = _INTERNATIONAL[:0x40] + _CYRILLIC
TABLES |= {ccsid: TABLES.get(before, _INTERNATIONAL).replace(_CURRENCY, _EURO) for ccsid, before in _WITH_EURO.items()}
"""By CCSID: 256 characters each."""
