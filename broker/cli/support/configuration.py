"""The configuration as a bundle has it: each setting with the value that holds, without secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from broker.config import SECTIONS, settings
from broker.config.kinds import DatabaseAddress

if TYPE_CHECKING:
    from broker.config import Config

_MASK: Final = "***"
_USER: Final = re.compile(r"(?<=://)(?P<user>[^:@/]*):.*@")
_SECRET: Final = re.compile("password|passfile|secret|key", re.IGNORECASE)


def without_secrets(config: Config) -> str:
    """Return the configuration as TOML, with `***` for what is secret."""
    return "\n".join(map(_section, SECTIONS, [getattr(config, name) for name in SECTIONS]))


def _section(name: str, values: object) -> str:
    lines = [f"[{name}]"]
    for setting in settings(name).values():
        value = getattr(values, setting.key)
        shown = masked(value) if isinstance(setting.kind, DatabaseAddress) else value
        lines.append(f"{setting.key} = {_toml(shown)}")
    return "\n".join(lines) + "\n"


def masked(address: str) -> str:
    """Return the address of a database without the password in it, wherever that stands."""
    before, mark, query = address.partition("?")
    shown = _USER.sub(rf"\g<user>:{_MASK}@", before)
    fields = [(name, _MASK if _SECRET.search(name) else value) for name, value in parse_qsl(query)]
    return shown + mark + urlencode(fields, safe="*/")


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None:
            return '""'
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case Path():
            return json.dumps(str(value))
        case _:
            return json.dumps(str(value), ensure_ascii=False)
