"""The kinds of value that a setting accepts: each reads a text, checks a value and says in words what it wants."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

from broker.mqi.names import is_name
from broker.secret_files import check_secret_file


class Kind(Protocol):
    """The kind of a setting. `read` turns the text of an environment variable into what TOML would have held."""

    @property
    def expected(self) -> str:
        """The values accepted, in words: "a whole number from 0 to 65535"."""

    def read(self, text: str) -> object:
        """The value that a text stands for; ValueError where it stands for none."""

    def check(self, value: object, folder: Path) -> object:
        """The value as the program uses it; ValueError where it is not accepted."""


class TextKind:
    """A kind of text, which the environment has as it is."""

    __slots__ = ()

    def read(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def read(self, text: str) -> object:
        return int(text)

    def check(self, value: object, folder: Path) -> object:
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class Seconds:
    """A span of time in seconds, whole or not."""

    low: float
    high: float = 86_400.0

    @property
    def expected(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, text: str) -> object:
        return float(text)

    def check(self, value: object, folder: Path) -> object:
        if type(value) not in (int, float) or not math.isfinite(number := float(str(value))):
            raise ValueError(self.expected)
        if not self.low <= number <= self.high:
            raise ValueError(self.expected)
        return number


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false."""

    expected: str = "true or false"

    def read(self, text: str) -> object:
        return {"true": True, "false": False}.get(text.lower(), text)

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, bool):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class Choice(TextKind):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def check(self, value: object, folder: Path) -> object:
        if value not in self.words:
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class ObjectName(TextKind):
    """The name of an MQ object."""

    expected: str = "1 to 48 characters from A-Z a-z 0-9 . / _ %"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not is_name(value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class SharingGroupName(TextKind):
    """The name of a queue-sharing group, or nothing."""

    expected: str = "the name of a queue-sharing group (one to four of A-Z and 0-9, a letter first), or nothing"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch("([A-Z][A-Z0-9]{0,3})?", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class DatabaseAddress(TextKind):
    """The address of a PostgreSQL database, or nothing."""

    expected: str = "the address of a PostgreSQL database (postgresql://user@host:5432/database), or nothing"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch("(postgres(ql)?://.*)?", value):
            raise ValueError(self.expected)
        return value

    @staticmethod
    def has_password(address: str) -> bool:
        """True for an address with a password in it."""
        before, _, query = address.partition("?")
        return ":" in before.partition("://")[2].rpartition("@")[0] or "password" in dict(parse_qsl(query))


@dataclass(frozen=True, slots=True)
class AnyText(TextKind):
    """Any text."""

    expected: str = "text"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class HostName(TextKind):
    """The address or name of a host; an empty text means none."""

    expected: str = 'an address or the name of a host, or "" for none'

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch(r"[\w.:%-]*", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class IpAddress(TextKind):
    """The address of a host, not its name."""

    expected: str = "an address, such as 127.0.0.1 or ::1"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str):
            raise ValueError(self.expected)
        return str(ipaddress.ip_address(value))


@dataclass(frozen=True, slots=True)
class WebOrigin(TextKind):
    """The origin of pages: scheme, host, and a port that is not the usual one of the scheme."""

    expected: str = "an origin, such as https://shop.example.com or http://localhost:3000, with no path and no star"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch(r"https?://([\w.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class LoopbackHost(TextKind):
    """An address that no other machine can reach: a listener without TLS would show passwords to a network."""

    expected: str = "a loopback address: 127.0.0.1, ::1 or localhost"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not is_loopback(value):
            raise ValueError(self.expected)
        return value


def is_loopback(host: str) -> bool:
    """True for an address that no other machine can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class SocketAddress(TextKind):
    """The host and the port of a socket to listen on; an empty text means none."""

    expected: str = 'HOST:PORT, such as 127.0.0.1:9480 or [::1]:9480, or "" for none'

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str):
            raise ValueError(self.expected)
        try:
            host, port = host_and_port(value) if value else ("localhost", 0)
            HostName().check(host, folder)
        except ValueError:
            raise ValueError(self.expected) from None
        if not host or port > 65535:
            raise ValueError(self.expected)
        return value


def host_and_port(address: str) -> tuple[str, int]:
    """Return the two parts of HOST:PORT, of IPv6 in brackets. Raises ValueError for anything else."""
    host, _, port = address.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or ((":" in host) != (host[:1] + host[-1:] == "[]")):
        raise ValueError(address)
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class FilePath(TextKind):
    """A path, relative to the folder of the configuration file. Where it is optional, an empty text means none."""

    optional: bool = False

    @property
    def expected(self) -> str:
        return 'a path, or "" for none' if self.optional else "a path"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or "\0" in value or not (value or self.optional):
            raise ValueError(self.expected)
        return folder / value if value else None


@dataclass(frozen=True, slots=True)
class SecretFile(FilePath):
    """The path of a file with a secret, which others may not write (SecretFileError); an empty text means none."""

    optional: bool = True

    def check(self, value: object, folder: Path) -> object:
        path = FilePath.check(self, value, folder)
        if isinstance(path, Path):
            check_secret_file(path)
        return path


@dataclass(frozen=True, slots=True)
class FileMode(TextKind):
    """The mode of a file, as `chmod` takes it: who may read and write it."""

    expected: str = 'octal digits in quotes, such as "0660"'

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3}", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class UserName(TextKind):
    """The name of a user; an empty text means none."""

    expected: str = 'the name of a user in quotes: 1 to 12 characters from A-Z a-z 0-9 . _ -, or "" for none'

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,12}", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class GroupName(TextKind):
    """The name or number of a group of the operating system; an empty text means none."""

    expected: str = 'the name or number of a group in quotes, or "" for none'

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not re.fullmatch(r"[^\s:\0]*", value):
            raise ValueError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class Several:
    """A list. In an environment variable, commas separate its elements."""

    element: Kind
    expected: str

    def read(self, text: str) -> object:
        return [self.element.read(part.strip()) for part in text.split(",") if part.strip()]

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, list):
            raise ValueError(self.expected)
        try:
            return tuple(self.element.check(part, folder) for part in value)
        except ValueError:
            raise ValueError(self.expected) from None


@dataclass(frozen=True, slots=True)
class ModuleName(TextKind):
    """The dotted name of a Python module."""

    expected: str = "the dotted name of a module"

    def check(self, value: object, folder: Path) -> object:
        if not isinstance(value, str) or not all(part.isidentifier() for part in value.split(".")):
            raise ValueError(self.expected)
        return value
