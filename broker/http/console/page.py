"""A page: where it is, what it shows, what of it changes while somebody looks, and what its forms do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from htpy import Node
    from markupsafe import Markup
    from starlette.datastructures import FormData
    from starlette.responses import Response

    from broker.http.console.visit import Visit


class Keyed(NamedTuple):
    """A child of a live part: its key, by which the browser tells it from its siblings, and its text.

    The outermost element of the text bears the key as the attribute `data-key`.
    """

    key: str
    html: Markup


Parts: TypeAlias = "Mapping[str, Sequence[Keyed]]"
"""The live parts of a page by their names, each with its children in order."""


class Content(NamedTuple):
    """The content of a page. `crumbs` lead to it: pairs of a word and the path below the console."""

    title: str
    body: Node
    crumbs: Sequence[tuple[str, str]] = ()
    status: int = 200


class Notice(NamedTuple):
    """The outcome of a form, in words. `back` is the path below the console to go on to; empty: the page itself."""

    text: str
    good: bool = True
    back: str = ""


Act: TypeAlias = "Callable[[Visit, FormData], Awaitable[Notice]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A page of the console.

    `path` is below the console, with `{name:segment}` for a part of it that is any text. `name` stands in the
    navigation, if it is not empty. `content` returns what is shown to a visitor, or an answer that is no page; `parts`
    what of it the page's stream keeps up, once a second at most. `actions` are what its forms do, by the name that the
    form gives; each is an MQSC command or a call of the MQI, as the visitor.
    """

    path: str
    content: Callable[[Visit], Awaitable[Content | Response]]
    name: str = ""
    parts: Callable[[Visit], Awaitable[Parts]] | None = None
    actions: Mapping[str, Act] = field(default_factory=dict)
