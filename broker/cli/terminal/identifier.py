"""Identifiers of MQ on the command line: hexadecimal digits, two a byte."""

from __future__ import annotations

from typing import Final

import click

ID_LENGTH: Final = 24


def identifier(context: click.Context, parameter: click.Parameter, text: str | None) -> bytes | None:
    """A MsgId, CorrelId or GroupId, as the callback of an option; a shorter one is filled up with zeros."""
    if text is None:
        return None
    try:
        given = bytes.fromhex(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not hexadecimal digits, two a byte") from None
    if len(given) > ID_LENGTH:
        raise click.BadParameter(f"an identifier has at most {ID_LENGTH} bytes, {2 * ID_LENGTH} digits")
    return given.ljust(ID_LENGTH, b"\0")


def identifiers(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[bytes, ...]:
    """Several identifiers, as the callback of an option that may be given more than once."""
    return tuple(found for text in texts if (found := identifier(context, parameter, text)) is not None)
