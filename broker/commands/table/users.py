"""Users (USER, EverMQ's own noun) and authentication information (AUTHINFO): the forms of values that they and channels
have, and their attributes in the order in which DISPLAY prints them (security 2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.table.forms import Integer, ListOf, Name, OwnName, Text, WordChoice
from broker.commands.table.queues import COUNT, QSGDISP_OF_SECURITY, YES_NO
from broker.commands.table.row import Acts, Attribute, Origin
from broker.core.security import password_hash
from broker.core.security.channel_rules import CHECK_WORDS
from broker.core.security.entities import is_entity
from broker.core.security.facts import OWN_USERS, Check

if TYPE_CHECKING:
    from broker.commands.table.forms import Value


@dataclass(frozen=True, slots=True)
class EntityName(OwnName):
    """The name of a user or of a group (security 2.2), or blank. `words` allows a word that stands for users, such as
    *MQADMIN, and *NOACCESS, which is nobody.
    """

    words: bool = False

    def accepts(self, value: Value) -> bool:
        if not isinstance(value, str):
            return False
        return not value or is_entity(value) or (self.words and _SPECIAL_NAME.fullmatch(value) is not None)

    @property
    def syntax(self) -> str:
        return "a name of 1 to 12 characters from A-Z a-z 0-9 . _ -"


_SPECIAL_NAME = re.compile(r"\*[A-Z]{1,11}")


@dataclass(frozen=True, slots=True)
class PasswordForm:
    """The hash of a password, never the password. It is shown as SET, or NONE where there is none."""

    def read(self, keyword: str, text: str) -> str:
        """The hash; NONE and blanks remove it. Raises CommandError (AMQ8425E), which does not repeat what was given."""
        text = text.strip(" ")
        if text.upper() in ("", "NONE"):
            return ""
        if not self.accepts(text):
            raise errors.conflict(password_hash.check(text) or keyword, syntax_error=True)
        return text

    def check(self, keyword: str, value: Value) -> None:
        """`read` has checked it: an error of its own would have to repeat it."""

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return isinstance(value, str) and (not value or password_hash.check(value) is None)

    def plain(self, value: Value) -> Value:
        """SET or NONE."""
        return "SET" if value else "NONE"

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return "$scrypt$ln=15,r=8,p=1$salt$hash (ln 14-20, r 8, p 1-4)"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of something that is not there: it is taken, and only that it was given is kept."""

    length: int

    def read(self, keyword: str, text: str) -> str:
        """SET, or nothing. Raises CommandError (AMQ8413E)."""
        if len(text) > self.length:
            raise errors.too_long(keyword, self.length, len(text))
        return "" if text.strip(" ").upper() in ("", "NONE") else "SET"

    def check(self, keyword: str, value: Value) -> None:
        """There is nothing to check in what is kept."""

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return value in ("", "SET")

    def plain(self, value: Value) -> Value:
        """SET or NONE."""
        return value or "NONE"

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return f"text of {self.length}"


GROUPS_MAX = 32

USER = (
    Attribute("USER", None, EntityName(), origin=Origin.NAME),
    Attribute("ALTDATE", None, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", None, Text(8), origin=Origin.KEPT),
    Attribute("DESCR", None, Text(64), acts=Acts.PROGRAMS),
    Attribute("GROUPS", None, ListOf(EntityName(), GROUPS_MAX)),
    Attribute("MAXBYTES", None, COUNT, 0),
    Attribute("MAXCALLS", None, COUNT, 0),
    Attribute("MAXCONNS", None, COUNT, 0),
    Attribute("MAXUOW", None, COUNT, 0),
    Attribute("OSUSER", None, Text(32), own=True),
    Attribute("PASSWORD", None, PasswordForm(), own=True),
    QSGDISP_OF_SECURITY,
    Attribute("STATUS", None, WordChoice({"DISABLED": 0, "ENABLED": 1}), 1),
)

CRLLDAP, OCSP, IDPWOS, IDPWLDAP = 1, 2, OWN_USERS, 4  # MQAIT
AUTHENTICATION_TYPES = {"CRLLDAP": CRLLDAP, "IDPWLDAP": IDPWLDAP, "IDPWOS": IDPWOS, "OCSP": OCSP}
_USERS = (IDPWOS, IDPWLDAP)
_DIRECTORY = (IDPWLDAP,)
_SERVERS = (CRLLDAP, IDPWLDAP)
CHECKS = {word: check.value for check, word in CHECK_WORDS.items()}
_OWN_CHECKS = WordChoice({word: number for word, number in CHECKS.items() if number != Check.AS_Q_MGR})

AUTHINFO = (
    Attribute("AUTHINFO", None, Name(), origin=Origin.NAME),
    Attribute(
        "AUTHTYPE",
        None,
        WordChoice(AUTHENTICATION_TYPES),
        IDPWOS,
        ignored=(CRLLDAP, OCSP, IDPWLDAP),
        instead="nobody who must be checked by it is let in",
    ),
    Attribute("ADOPTCTX", None, YES_NO, 1, types=_USERS),
    Attribute("DESCR", None, Text(64), acts=Acts.PROGRAMS),
    Attribute("CONNAME", None, Text(264), acts=Acts.NO, types=_SERVERS),
    Attribute("CHCKCLNT", None, _OWN_CHECKS, Check.REQUIRED.value, types=_USERS),
    Attribute("CHCKLOCL", None, _OWN_CHECKS, Check.OPTIONAL.value, types=_USERS),
    Attribute("CLASSGRP", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute("CLASSUSR", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute("FAILDLAY", None, Integer(0, 60), 1, types=_USERS),
    Attribute("AUTHENMD", None, WordChoice({"OS": 0, "PAM": 1}), 0, acts=Acts.NO, types=(IDPWOS,)),
    Attribute("FINDGRP", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute("BASEDNG", None, Text(1024), acts=Acts.NO, types=_DIRECTORY),
    Attribute("BASEDNU", None, Text(1024), acts=Acts.NO, types=_DIRECTORY),
    Attribute("LDAPUSER", None, Text(256), acts=Acts.NO, types=_SERVERS),
    Attribute("LDAPPWD", None, Secret(32), acts=Acts.NO, types=_SERVERS, instead="not the password, but SET"),
    Attribute("SHORTUSR", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute("GRPFIELD", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute("USRFIELD", None, Text(128), acts=Acts.NO, types=_DIRECTORY),
    Attribute(
        "AUTHORMD",
        None,
        WordChoice({"OS": 0, "SEARCHGRP": 1, "SEARCHUSR": 2, "SRCHGRPSN": 3}),
        0,
        acts=Acts.NO,
        types=_DIRECTORY,
    ),
    Attribute("NESTGRP", None, YES_NO, 0, acts=Acts.NO, types=_DIRECTORY),
    Attribute("SECCOMM", None, WordChoice({"NO": 0, "YES": 1, "ANON": 2}), 0, acts=Acts.NO, types=_DIRECTORY),
    Attribute("OCSPURL", None, Text(256), acts=Acts.NO, types=(OCSP,)),
    QSGDISP_OF_SECURITY,
    Attribute("ALTDATE", None, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", None, Text(8), origin=Origin.KEPT),
)
