"""Writes the sample `broker.toml` and `docs/reference/configuration.md`, the reference of the settings.

Run `python docs/scripts/configuration_page.py` after a change.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from broker.config import SECTIONS, Setting, settings

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "broker.toml"
PAGE = ROOT / "docs" / "reference" / "configuration.md"

_SAMPLE_HEAD = """\
# The configuration of EverMQ, complete: every key with its default. Start it with `evermq run --config broker.toml`.
# Paths are relative to the folder of this file. A variable of the environment overrides each key:
# EVERMQ_LISTENER_PORT=1415 stands for port = 1415 in [listener]; commas separate the elements of a list.
"""

_PAGE_HEAD = """\
# Configuration

`evermq run --config broker.toml` reads one file of TOML; the sample `broker.toml` in the repository holds every key
with its default. Without `--config` the defaults below hold, in the current folder. An unknown key, a value of the
wrong type or out of range is an error that names the file and the place, and the right name nearest to a wrong one.

Each key can be overridden by a variable of the environment, `EVERMQ_` and the names of section and key in capitals:
`EVERMQ_LISTENER_PORT=1415`. Commas separate the elements of a list; `true` and `false` are the values of a switch.
Paths in the file are relative to the folder of the file, paths in variables to the current folder.
"""


_PAGE_TAIL = """
## Signals

- SIGTERM and SIGINT (Ctrl-C): the daemon quiesces. New connections are refused, connections and handlers have
  `quiesce_timeout` seconds to end. Then handlers are cancelled and connections cut, and their units of work backed out.
  Exit code 0.
- The same signals while it starts: the start is given up, and what has begun ends in order, with exit code 130 after
  Ctrl-C and 0 after SIGTERM. A second one ends the process at once, with exit code 20: nothing that was acknowledged is
  lost, and the next start goes on with what is on the disk.
- SIGHUP: the files of `[tls]` are loaded again, for those who connect from then on. Where they cannot be used, the log
  names what is wrong, and the old ones go on. Without `[tls]`: nothing but a line in the log. All else is read at the
  start only: restart the daemon to change it.

A handler that goes on although it was cancelled, or that blocks the event loop, keeps the daemon from ending in order.
It is named in the log 5 seconds after `quiesce_timeout`, and the process ends without it, with exit code 20.
Acknowledged changes are on disk, as after a power failure; nonpersistent messages are gone, on queues with
NPMCLASS(HIGH) too.

A handler that blocks the event loop for 0.5 s is named in the log at any time: nobody is served meanwhile. Give
blocking work to a thread (`anyio.to_thread.run_sync`), or run handlers in a process of their own.
"""


def sample() -> str:
    """The text of `broker.toml`."""
    return _SAMPLE_HEAD + "".join(_sample_section(section) for section in SECTIONS)


def _sample_section(section: str) -> str:
    head = f"\n[{section}]\n{_comment(_purpose(section))}"
    return head + "".join(f"\n{_comment(_reported(each))}{each.key} = {toml(each.default)}\n" for each in _all(section))


def page() -> str:
    """The text of `docs/reference/configuration.md`."""
    return _PAGE_HEAD + "".join(_page_section(section) for section in SECTIONS) + _PAGE_TAIL


def _page_section(section: str) -> str:
    rows = "".join(
        f"| `{each.key}` | `{toml(each.default)}` | {each.kind.expected} | {_reported(each)} |\n"
        for each in _all(section)
    )
    return (
        f"\n## `[{section}]`\n\n{_purpose(section)}\n\n| key | default | accepts | meaning |\n|---|---|---|---|\n{rows}"
    )


def _purpose(section: str) -> str:
    return (SECTIONS[section].__doc__ or "").partition("\n")[0]


def _all(section: str) -> list[Setting]:
    return list(settings(section).values())


def _reported(each: Setting) -> str:
    return f"{each.help} In {each.unit}." if each.unit else each.help


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 110))


def toml(value: object) -> str:
    """A default as TOML writes it."""
    match value:
        case None:
            return '""'
        case bool():
            return str(value).lower()
        case int() if value >= 10_000:
            return f"{value:_}"
        case int() | float():
            return str(value)
        case tuple():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            return f'"{value}"'


if __name__ == "__main__":
    SAMPLE.write_text(sample(), "utf-8")
    PAGE.write_text(page(), "utf-8")
