"""Forms: each shows the line that it sends, an MQSC command or a call of the MQI, and posts without a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import htpy as h
from starlette.datastructures import FormData

from broker.http.console.elements import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from htpy import Element, Node, VoidElement
    from starlette.requests import Request

    from broker.http.console.visit import Visit

LINE_CHARACTERS: Final = 600
FIELDS_MAX: Final = 5000
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> FormData:
    """Return the fields that a form has sent; none of a body that is no form's."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
        return FormData()
    try:
        text = (await request.body()).decode()
        return FormData([*parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX)])
    except ValueError:
        return FormData()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A button and what it sends.

    `name` is the action of the page that does it, `line` the MQSC command or the call that it comes to. `missing` is
    what the visitor lacks for it, such as `get on ORDERS`; the button is then there and cannot be pressed. `confirm` is
    asked before. `inputs` are what the visitor fills in, `fields` what the form says beside that.
    """

    name: str
    label: str
    line: str
    missing: str = ""
    confirm: str = ""
    danger: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    inputs: Node = None


def action_form(visit: Visit, action: Action) -> Element:
    """The form of an action: what is to be filled in, the button, the line below it, and what is missing."""
    return h.form(".action", method="post", action=visit.here, data_confirm=action.confirm or None)[
        hidden("form_token", visit.form_token),
        hidden("action", action.name),
        (hidden(name, value) for name, value in action.fields.items()),
        action.inputs,
        h.button(".danger" if action.danger else ".act", type="submit", disabled=bool(action.missing))[action.label],
        h.code(".line")[shown(action.line, LINE_CHARACTERS)],
        h.p(".missing")["needs ", shown(action.missing)] if action.missing else None,
    ]


def hidden(name: str, value: str) -> VoidElement:
    """A field that nobody sees."""
    return h.input(type="hidden", name=name, value=value)


def text_input(name: str, label: str, *, value: str = "", placeholder: str = "", required: bool = False) -> Element:
    """A field for a line of text, with its label."""
    return h.label[
        h.span[label],
        h.input(
            type="text", name=name, value=value, placeholder=placeholder or None, required=required,
            autocomplete="off", spellcheck="false",
        ),
    ]  # fmt: skip
