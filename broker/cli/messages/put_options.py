"""The options of `evermq put` for a message, and the descriptor and extra options that they make."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from broker.cli.terminal.identifier import identifier
from broker.cli.terminal.seconds import SecondsType
from broker.mqi import MQEI, MQFMT, MQMT, MQPER, MQPRI, MessageDescriptor
from broker.mqi.constants.descriptor import UTF_8
from broker.mqi.structures import DESCRIPTOR_SIZES

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

_DELAY_MAX: Final = 315_360_000.0  # ten years, as the interface has it
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]{1,3})?")
_TRUTHS: Final = {"true": True, "false": False}


class MessageOptions(TypedDict):
    """The options, as click gives them. `delay` and `expiry` are in seconds."""

    nonpersistent: bool
    priority: int | None
    expiry: float | None
    correl_id: bytes
    reply_to: str
    format: str | None
    properties: dict[str, Any]
    delay: float | None
    key: str | None


def _property(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Properties by name, as the callback of an option."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is no property: write NAME=VALUE")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = _value(value)
    return found


def _value(text: str) -> str | int | float | bool:
    """The value of a property: a number or a truth where it is written as one, text in quotes without them."""
    if text in _TRUTHS:
        return _TRUTHS[text]
    if number := _NUMBER.fullmatch(text):
        return float(text) if number["fraction"] or number["exponent"] else int(text)
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted else text


def _fits(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A name that its field of the descriptor has room for, as the callback of an option."""
    most = DESCRIPTOR_SIZES["format" if parameter.name == "format" else "reply_to_q"]
    if text is not None and len(text.encode()) > most:
        raise click.BadParameter(f"{text!r} is longer than {most} characters")
    return text


def with_message_options(command: Command) -> Command:
    """Give a command the options that say what a message is."""
    for option in (
        click.option("--key", metavar="KEY", help="Put nothing if a message with this key was put in the last 300 s."),
        click.option(
            "--delay", type=click.FloatRange(0, _DELAY_MAX), metavar="S", help="Let nobody get it for S seconds."
        ),
        click.option(
            "--property",
            "properties",
            multiple=True,
            callback=_property,
            metavar="NAME=VALUE",
            help="A message property; may be given several times. Numbers, true and false are such: '\"5\"' is text.",
        ),
        click.option("--format", callback=_fits, metavar="NAME", help="Format, instead of MQSTR for text."),
        click.option(
            "--reply-to", default="", callback=_fits, metavar="QUEUE", help="Ask for a reply on QUEUE: a request."
        ),
        click.option(
            "--correl-id", callback=identifier, default="", metavar="HEX", help="CorrelId of the messages, hexadecimal."
        ),
        click.option("--expiry", type=SecondsType(min=0.1), metavar="S", help="Discard the messages after S seconds."),
        click.option(
            "--priority", type=click.IntRange(0, 9), help="Priority of the messages, instead of the queue's DEFPRTY."
        ),
        click.option("--nonpersistent", is_flag=True, help="Do not keep the messages over a restart."),
    ):
        command = option(command)
    return command


def about_one(options: MessageOptions) -> list[str]:
    """Return the given options that are about one message alone."""
    given = {"--property": bool(options["properties"]), "--delay": options["delay"], "--key": options["key"]}
    return [name for name, value in given.items() if value not in (None, False)]


def descriptor(options: MessageOptions, data: bytes) -> MessageDescriptor:
    """The descriptor of a message with this data."""
    expiry = options["expiry"]
    md = MessageDescriptor(
        msg_type=MQMT.REQUEST if options["reply_to"] else MQMT.DATAGRAM,
        persistence=MQPER.NOT_PERSISTENT if options["nonpersistent"] else MQPER.PERSISTENT,
        priority=MQPRI.PRIORITY_AS_Q_DEF if options["priority"] is None else options["priority"],
        expiry=MQEI.UNLIMITED if expiry is None or math.isinf(expiry) else math.ceil(expiry * 10),
        correl_id=options["correl_id"],
        reply_to_q=options["reply_to"],
    )
    text = _is_text(data)
    if text:
        md.coded_char_set_id = UTF_8
    md.format = (MQFMT.STRING if text else "") if options["format"] is None else options["format"]
    return md


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
