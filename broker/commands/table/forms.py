"""The forms that values of attributes take: numbers, words, flags, texts and names.

A form reads a value from MQSC text, says whether a value is allowed, and writes it again. The values themselves are
MQ's own integers, or strings without the blanks that pad them. A form knows no attribute: keywords are passed in for
errors.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from broker.commands import errors
from broker.mqi.names import NAME_LENGTH, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value: TypeAlias = int | str


class ValueForm(Protocol):
    """The form of the values of an attribute."""

    def read(self, keyword: str, text: str) -> Value:
        """The value that a text names, allowed or not. Raises CommandError."""

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError when the value is not allowed."""

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""

    def plain(self, value: Value) -> Value:
        """The value as a person reads it."""

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""


NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Integer:
    """A number from `low` to `high`, or one of some words that stand for special numbers."""

    low: int
    high: int
    words: Mapping[str, int] = field(default_factory=dict)

    def read(self, keyword: str, text: str) -> int:
        """The number that the text names, in range or not: a filter may compare with any."""
        word = text.upper()
        if word in self.words:
            return self.words[word]
        if NUMBER.fullmatch(text):
            return int(text)
        if text.removeprefix("-").isdecimal():
            raise errors.out_of_range(keyword, self.syntax)
        raise errors.bad_value(keyword, text, self.syntax)

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8412E) when the value is not allowed."""
        if not self.accepts(value):
            raise errors.out_of_range(keyword, self.syntax)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return isinstance(value, int) and (self.low <= value <= self.high or value in self.words.values())

    def plain(self, value: Value) -> Value:
        """The value as a person reads it: the word that stands for it, else the number."""
        return next((word for word, number in self.words.items() if number == value), value)

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return " | ".join([f"{self.low}-{self.high}", *self.words])


@dataclass(frozen=True, slots=True)
class WordChoice:
    """One of a few words, each with MQ's number."""

    words: Mapping[str, int]

    def read(self, keyword: str, text: str) -> int:
        """The number of the word."""
        try:
            return self.words[text.upper()]
        except KeyError:
            raise errors.bad_value(keyword, text, self.syntax) from None

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) when the value is not allowed."""
        if not self.accepts(value):
            raise errors.bad_value(keyword, str(value), self.syntax)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return isinstance(value, int) and value in self.words.values()

    def plain(self, value: Value) -> Value:
        """The word."""
        return next((word for word, number in self.words.items() if number == value), value)

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return " | ".join(self.words)


@dataclass(frozen=True, slots=True)
class Flag:
    """A keyword that stands for itself, and for its opposite with NO before it: TRIGGER, NOTRIGGER."""

    def read(self, keyword: str, text: str) -> int:
        """1 for the keyword, 0 for its opposite: this is how a filter names them."""
        word = text.upper()
        if word not in (keyword, f"NO{keyword}"):
            raise errors.bad_value(keyword, text, f"{keyword} | NO{keyword}")
        return int(word == keyword)

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) when the value is not allowed."""
        if not self.accepts(value):
            raise errors.bad_value(keyword, str(value), "0 | 1")

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return value in (0, 1)

    def plain(self, value: Value) -> bool:
        """True or False."""
        return bool(value)

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return "flag"


@dataclass(frozen=True, slots=True)
class Text:
    """Characters, up to `length`; the empty string stands for blanks."""

    length: int

    def read(self, keyword: str, text: str) -> str:
        """The text without the blanks at its end."""
        return text.rstrip(" ")

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8413E for the length, AMQ8425E for null characters)."""
        if len(str(value)) > self.length:
            raise errors.too_long(keyword, self.length, len(str(value)))
        if not self.accepts(value):
            raise errors.bad_value(keyword, repr(value), self.syntax)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        return isinstance(value, str) and len(value) <= self.length and "\0" not in value

    def plain(self, value: Value) -> Value:
        """The text itself."""
        return value

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return f"text of {self.length}"


@dataclass(frozen=True, slots=True)
class Name:
    """The name of an object, which need not exist, or blank. `generic` allows a trailing asterisk."""

    length: int = NAME_LENGTH
    generic: bool = False

    def read(self, keyword: str, text: str) -> str:
        """The name without the blanks at its end."""
        return text.rstrip(" ")

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8424E) when this is not a name."""
        if not self.accepts(value):
            raise errors.bad_name(keyword, str(value))

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        if not isinstance(value, str):
            return False
        stem = value.removesuffix("*") if self.generic else value
        return len(value) <= self.length and (not stem or is_name(stem, self.length))

    def plain(self, value: Value) -> Value:
        """The name itself."""
        return value

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return f"name of {self.length}"


class OwnName(ABC):
    """A name that is none of an object, or blank: `accepts` and `syntax` say what it is."""

    __slots__ = ()

    def read(self, keyword: str, text: str) -> str:
        """The name without the blanks at its end."""
        return text.rstrip(" ")

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8424E) when this is no such name."""
        if not self.accepts(value):
            raise errors.bad_name(keyword, str(value), self.syntax)

    @abstractmethod
    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""

    def plain(self, value: Value) -> Value:
        """The name itself."""
        return value

    @property
    @abstractmethod
    def syntax(self) -> str:
        """The allowed values in one line."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text in which `error_in` finds no error, such as a pattern of addresses; the empty string stands for none."""

    length: int
    error_in: Callable[[str], str | None]
    syntax: str

    def read(self, keyword: str, text: str) -> str:
        """The text without the blanks at its end."""
        return text.rstrip(" ")

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) with the objection, AMQ8413E for the length."""
        text = str(value)
        if len(text) > self.length:
            raise errors.too_long(keyword, self.length, len(text))
        wrong = self.error_in(text) if text else None
        if wrong is not None:
            raise errors.conflict(f"{keyword}({text}): {wrong.rstrip('.')}", syntax_error=True)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        if not isinstance(value, str) or len(value) > self.length:
            return False
        return not value or self.error_in(value) is None

    def plain(self, value: Value) -> Value:
        """The text itself."""
        return value


@dataclass(frozen=True, slots=True)
class ListOf:
    """Up to `most` values of one form, kept as one text with commas between them."""

    one: ValueForm
    most: int

    def read(self, keyword: str, text: str) -> str:
        """The values, each once, without blanks around them."""
        each = (str(self.one.read(keyword, one.strip(" "))) for one in text.split(",") if one.strip(" "))
        return ",".join(dict.fromkeys(each))

    def check(self, keyword: str, value: Value) -> None:
        """Raise CommandError (AMQ8425E) for too many values, or what the form of one raises."""
        each = str(value).split(",")
        if len(each) > self.most:
            raise errors.conflict(f"{keyword} takes up to {self.most} values, not {len(each)}", syntax_error=True)
        for one in each:
            self.one.check(keyword, one)

    def accepts(self, value: Value) -> bool:
        """True if an attribute may have this value."""
        each = str(value).split(",")
        return isinstance(value, str) and len(each) <= self.most and all(map(self.one.accepts, each))

    def plain(self, value: Value) -> Value:
        """The values with commas between them."""
        return value

    @property
    def syntax(self) -> str:
        """The allowed values in one line."""
        return f"up to {self.most} of: {self.one.syntax}"
