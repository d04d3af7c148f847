"""Loading: a file of TOML and the `EVERMQ_...` variables, checked against the settings, become one `Config`.

A path may begin with `${CREDENTIALS_DIRECTORY}`, where systemd puts the credentials of a service.
"""

from __future__ import annotations

import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.config.kinds import DatabaseAddress, FilePath, LoopbackHost
from broker.config.sections import SECTIONS, Config, settings
from broker.config.security import tls_lines
from broker.secret_files import SecretFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.config.setting import Setting

_PREFIX: Final = "EVERMQ_"
_LONG_INTEGER: Final = re.compile("[0-9][0-9_]{499,}")
_DIGITS_READ: Final = 100
_CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"


class ConfigError(ValueError):
    """A configuration that cannot be used. Prints as `broker.toml: [listener] prot: unknown key; did you mean port?`.

    `source` is the file or the environment variable, `place` the section and key in it ("[listener] prot", or "" for
    the whole of it), `nearest` the right name that is closest to a wrong one, or "". Lines to write instead are a note.
    """

    def __init__(self, source: str, place: str, problem: str, nearest: str = "", lines: str = "") -> None:
        hint = f"; did you mean {nearest}?" if nearest else ""
        super().__init__(": ".join(part for part in (source, place, problem + hint) if part))
        self.source = source
        self.place = place
        self.nearest = nearest
        if lines:
            self.add_note(lines)


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration of a file (without one: the defaults), with the `EVERMQ_...` variables laid over it.

    `environ` is the environment of the process unless another is given. Paths in the file are relative to its folder,
    paths in variables to the current one. Raises ConfigError.
    """
    return load_with_origins(path, environ).config


class LoadedConfig(NamedTuple):
    """A configuration, and the file or the variable that each value comes from, by section and key. What has its
    default is not among the `origins`.
    """

    config: Config
    origins: dict[tuple[str, str], str]


def load_with_origins(path: Path | None = None, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """As `load`, and where each value comes from."""
    environ = os.environ if environ is None else environ
    chosen: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    origins: dict[tuple[str, str], str] = {}
    if path is not None:
        for section, key, value in _defaults_beside(path):
            chosen[section][key] = value
        for section, key, value in _of_file(path, environ):
            chosen[section][key] = value
            origins[section, key] = str(path)
    for section, key, value in _of_environment(environ):
        chosen[section][key] = value
        origins[section, key] = f"{_PREFIX}{section}_{key}".upper()
    return LoadedConfig(Config(**{name: SECTIONS[name](**values) for name, values in chosen.items()}), origins)


def _defaults_beside(path: Path) -> Iterator[tuple[str, str, object]]:
    """The defaults that are paths: left out of a file, they are as relative to its folder as they are in it."""
    for section in SECTIONS:
        for each in settings(section).values():
            if isinstance(each.default, Path):
                yield section, each.key, path.parent / each.default


def _of_file(path: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    source = str(path)
    for section, table in _parsed(path).items():
        if section not in SECTIONS:
            raise _unknown_section(source, section, table)
        if not isinstance(table, dict):
            raise ConfigError(source, f"[{section}]", "wants a table of settings")
        for key, value in table.items():
            place = f"[{section}] {key}"
            known = settings(section).get(key)
            if known is None:
                raise ConfigError(source, place, "unknown key", _nearest_key(section, key))
            yield section, key, _checked(known, value, source, place, path.parent, environ)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return _read(path.read_bytes().decode())
    except OSError as error:
        raise ConfigError(str(path), "", (error.strerror or str(error)).lower()) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ConfigError(str(path), "", "not a configuration: its values are nested too deep") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), "", f"not TOML: {error}") from error


def _read(text: str) -> dict[str, Any]:
    """The values of a text. An integer of more digits than Python reads is read by its first ones: that is more than
    any setting accepts as well, and so the mistake is told with its key.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        return tomllib.loads(_LONG_INTEGER.sub(lambda found: found[0][:_DIGITS_READ].rstrip("_"), text))


def _of_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    """The settings among the variables. Names of no section belong to others, as `EVERMQ_URL` does to clients."""
    for name, text in sorted(environ.items()):
        found = _section_and_key(name)
        if found is None:
            continue
        section, key = found
        known = settings(section).get(key)
        if known is None:
            nearest = _closest(key, settings(section))
            raise ConfigError(name, "", "unknown setting", nearest and f"{_PREFIX}{section}_{nearest}".upper())
        try:
            value = known.kind.read(text)
        except ValueError:
            value = text
        yield section, key, _checked(known, value, name, "", Path(), environ)


def _section_and_key(name: str) -> tuple[str, str] | None:
    """The section and the key that the name of a variable stands for."""
    rest = name.removeprefix(_PREFIX).lower()
    if rest != name.lower() and name.isupper():
        for section in SECTIONS:
            if rest.startswith(f"{section}_"):
                return section, rest.removeprefix(f"{section}_")
    return None


def _checked(
    known: Setting, value: object, source: str, place: str, folder: Path, environ: Mapping[str, str]
) -> object:
    if isinstance(known.kind, FilePath) and isinstance(value, str) and value.startswith(f"${{{_CREDENTIALS}}}/"):
        if not environ.get(_CREDENTIALS):
            raise ConfigError(
                source, place, f"there is no {_CREDENTIALS}: systemd sets it for a service with LoadCredential="
            )
        value = value.replace(f"${{{_CREDENTIALS}}}", environ[_CREDENTIALS], 1)
    try:
        return known.kind.check(value, folder)
    except SecretFileError as error:
        raise ConfigError(source, place, str(error)) from None
    except ValueError:
        given = _shown(value)
        if isinstance(known.kind, DatabaseAddress) and any(sign in str(value) for sign in ("@", "password")):
            given = "what it has"  # which may be a password, too
        problem = f"wants {known.kind.expected}, not {given}"
        if not isinstance(known.kind, LoopbackHost) or not isinstance(value, str):
            raise ConfigError(source, place, problem) from None
        raise ConfigError(
            source, place, f"{problem}. Other machines are served by a listener with TLS", lines=tls_lines(value)
        ) from None


def _shown(value: object) -> str:
    """A value as TOML would write it, cut to what fits a line."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except ValueError:  # hexadecimal digits may be as many as they like, until they are to be shown as decimal ones
        text = "an integer of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unknown_section(source: str, name: str, table: object) -> ConfigError:
    if isinstance(table, dict):
        nearest = _closest(name, SECTIONS)
        return ConfigError(source, f"[{name}]", "unknown section", nearest and f"[{nearest}]")
    return ConfigError(source, name, "a key outside every section", _home(name))


def _nearest_key(section: str, key: str) -> str:
    return _home(key) or _closest(key, settings(section))


def _home(key: str) -> str:
    """Return the right place of a key that was found in the wrong one, as `[listener] port`."""
    return next((f"[{section}] {key}" for section in SECTIONS if key in settings(section)), "")


def _closest(name: str, names: Iterable[str]) -> str:
    return next(iter(get_close_matches(name.lower(), list(names), n=1)), "")
