"""Profiles: names with wildcards, for which authority records are made, and their order (security 6.2, 6.3).

The parts of a name between its periods are its qualifiers. `?` stands for one character of a qualifier, `*` for any
number of characters of one, `**` in place of a qualifier, once, for any number of qualifiers: each also for none. A
profile without wildcards is for the object of that name alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from broker.mqi.names import NAME_LENGTH, is_name

CLASS: Final = "@class"
"""The profile that says who may make objects of a type. It is no name, and no other profile fits it."""

_REMEMBERED: Final = 16384
_RANKS: Final = {"*": "2", "?": "1", "\0": "3"}
_SHORTER: Final = "4"


def check(profile: str) -> str | None:
    """Return the error in a profile, as a text; None if it has none."""
    qualifiers = profile.split(".")
    if profile == CLASS or profile == "":
        return None if profile else f"a profile is a name, a name with wildcards, or {CLASS}"
    if not is_name(profile.replace("*", "_").replace("?", "_")):
        return f"profile {profile} is not 1 to {NAME_LENGTH} of A-Z a-z 0-9 . / _ % and the wildcards ? * **"
    if any("**" in each and each != "**" for each in qualifiers):
        return f"profile {profile} has ** beside other characters: it stands alone between periods, as in A.**.B"
    if qualifiers.count("**") > 1:
        return f"profile {profile} has ** more than once"
    return None


def is_generic(profile: str) -> bool:
    """True if the profile has wildcards."""
    return "*" in profile or "?" in profile


def literal_part(profile: str) -> str:
    """Return the characters with which all names that the profile fits begin: those before its first wildcard."""
    end = min((at for at in map(profile.find, "*?") if at >= 0), default=len(profile))
    return profile[: end - 1] if profile.startswith(".**", end - 1) else profile[:end]


@lru_cache(_REMEMBERED)
def rank(profile: str) -> str:
    """Return a text by which profiles that fit one name are sorted, the most specific first.

    They are compared from the left: a character comes before `?`, that before `*`, that before `**`, and the longer
    profile before its own beginning.
    """
    return "".join(_RANKS.get(each, "0") for each in profile.replace("**", "\0")) + _SHORTER


def fits(profile: str, name: str) -> bool:
    """True if the profile fits the name."""
    parts, qualifiers = profile.split("."), name.split(".")
    if "**" in parts:
        at = parts.index("**")
        behind = len(parts) - at - 1
        if len(qualifiers) < at + behind:
            return False
        parts[at : at + 1] = qualifiers[at : len(qualifiers) - behind]  # each fits itself
    return len(parts) == len(qualifiers) and all(map(glob, parts, qualifiers))


def glob(pattern: str, text: str) -> bool:
    """True if the pattern fits the text, periods being characters as all others.

    Only the last `*` that was passed is ever tried again, so it takes no more steps than the product of both lengths.
    """
    at = here = 0
    star = tried = -1
    while here < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, tried = at, here
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[here]):
            at += 1
            here += 1
        elif star >= 0:
            tried += 1
            at, here = star + 1, tried
        else:
            return False
    return all(each == "*" for each in pattern[at:])
