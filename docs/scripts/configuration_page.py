"""Writes the sample `broker.toml` and `docs/reference/configuration.md`, the reference of the settings.

Run `python docs/scripts/configuration_page.py` after a change.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from broker.config import SECTIONS, Setting, settings
from broker.config.printing import toml

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "broker.toml"
PAGE = ROOT / "docs" / "reference" / "configuration.md"

_SAMPLE_HEAD = """\
# The configuration of EverMQ, complete: every key with its default. Start it with `evermq run --config broker.toml`.
# Paths are relative to the folder of this file. A variable of the environment overrides each key:
# EVERMQ_LISTENER_PORT=1415 stands for port = 1415 in [listener]; commas separate the elements of a list.
# What is (live) can change while the daemon runs, by `evermq reload` or SIGHUP; the rest is read at the start.
"""

_PAGE_HEAD = """\
# Configuration

`evermq run --config broker.toml` reads one file of TOML; the sample `broker.toml` in the repository holds every key
with its default. Without `--config` the defaults below hold, in the current folder. An unknown key, a value of the
wrong type or out of range is an error that names the file and the place, and the right name nearest to a wrong one.

Each key can be overridden by a variable of the environment, `EVERMQ_` and the names of section and key in capitals:
`EVERMQ_LISTENER_PORT=1415`. Commas separate the elements of a list; `true` and `false` are the values of a switch.
Paths in the file are relative to the folder of the file, paths in variables to the current folder. A path may begin
with `${CREDENTIALS_DIRECTORY}/`, for the credentials of a service of systemd. `evermq config` prints what holds, and
where each value comes from.

What is *live* can change while the daemon runs: `evermq reload`, or SIGHUP, reads the file again, names in the log each
key that has changed, and each that waits for the next start. A file with a mistake changes nothing.
"""


_PAGE_TAIL = """
## Signals

- SIGTERM and SIGINT (Ctrl-C): the daemon quiesces. New connections are refused, connections and handlers have
  `quiesce_timeout` seconds to end. Then handlers are cancelled and connections cut, and their units of work backed out.
  Exit code 0.
- The same signals while it starts: the start is given up, and what has begun ends in order, with exit code 130 after
  Ctrl-C and 0 after SIGTERM. A second one ends the process at once, with exit code 20: nothing that was acknowledged is
  lost, and the next start goes on with what is on the disk.
- SIGHUP: the configuration is read again, as by `evermq reload`, and the files of `[tls]` are loaded again, for those
  who connect from then on. Where any of it cannot be used, the log says why, and nothing changes.

A handler that goes on although it was cancelled, or that blocks the event loop, keeps the daemon from ending in order.
It is named in the log 5 seconds after `quiesce_timeout`, and the process ends without it, with exit code 20.
Acknowledged changes are on disk, as after a power failure; nonpersistent messages are gone, on queues with
NPMCLASS(HIGH) too.

A handler that blocks the event loop for 0.5 s is named in the log at any time: nobody is served meanwhile. Give
blocking work to a thread (`anyio.to_thread.run_sync`), or run handlers in a process of their own.
"""

_LIVE = " (live)"


def sample() -> str:
    """The text of `broker.toml`."""
    return _SAMPLE_HEAD + "".join(_sample_section(section) for section in SECTIONS)


def _sample_section(section: str) -> str:
    head = f"\n[{section}]\n{_comment(_purpose(section))}"
    return head + "".join(
        f"\n{_comment(_reported(each) + _LIVE * each.live)}{each.key} = {toml(each.default)}\n"
        for each in _all(section)
    )


def page() -> str:
    """The text of `docs/reference/configuration.md`."""
    return _PAGE_HEAD + "".join(_page_section(section) for section in SECTIONS) + _PAGE_TAIL


def _page_section(section: str) -> str:
    rows = "".join(
        f"| `{each.key}` | `{toml(each.default)}` | {each.kind.expected} | {'yes' if each.live else ''} | "
        f"{_reported(each)} |\n"
        for each in _all(section)
    )
    head = "| key | default | accepts | live | meaning |\n|---|---|---|---|---|\n"
    return f"\n## `[{section}]`\n\n{_purpose(section)}\n\n{head}{rows}"


def _purpose(section: str) -> str:
    return (SECTIONS[section].__doc__ or "").partition("\n")[0]


def _all(section: str) -> list[Setting]:
    return list(settings(section).values())


def _reported(each: Setting) -> str:
    return f"{each.help} In {each.unit}." if each.unit else each.help


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, 110))


if __name__ == "__main__":
    SAMPLE.write_text(sample(), "utf-8")
    PAGE.write_text(page(), "utf-8")
