"""Hosts of a network on one machine: namespaces with addresses of 192.0.2.0/24 (TEST-NET-1), joined by a bridge.

A namespace lives as long as the process that holds it, and that ends with its standard input. So nothing is left of a
network, however its test ends, and no name is taken that another could have. Root may make one, and where the system
allows it everybody in a user namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

PROGRAMS: Final = ("unshare", "nsenter", "ip", "mount")

_HOLD: Final = "echo held && exec cat"
_PREFIX: Final = 24


class NoNamespacesError(Exception):
    """There can be no network here; the text says why."""


class Host(NamedTuple):
    """A host with its address. `enter` is the command that brings another into it."""

    address: str
    enter: tuple[str, ...]

    def inside(self, folder: Path) -> tuple[str, ...]:
        """The beginning of a command that runs on this host, in a folder."""
        return (*self.enter, "env", f"--chdir={folder}")

    def run(self, *command: str) -> str:
        """Run a command, which must succeed; its standard output."""
        return _run(*self.enter, *command)


@contextmanager
def network(addresses: Mapping[str, str], names: Mapping[str, str] | None = None) -> Iterator[dict[str, Host]]:
    """Hosts by their names, each with its address. `names` are those that all of them resolve to addresses. Raises
    NoNamespacesError.
    """
    missing = [each for each in PROGRAMS if shutil.which(each) is None]
    if missing:
        raise NoNamespacesError(f"network namespaces need {', '.join(missing)}")
    as_user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    enter_user = ("--user", "--preserve-credentials") if as_user else ()
    with ExitStack() as stack:
        known = stack.enter_context(NamedTemporaryFile("w", prefix="hosts-"))
        known.write("127.0.0.1 localhost\n" + "".join(f"{each} {name}\n" for name, each in (names or {}).items()))
        known.flush()
        os.chmod(known.name, 0o644)
        bridge = stack.enter_context(_held((), as_user, ":", enter_user))
        _run(*bridge, "ip", "link", "add", "bridge", "type", "bridge")
        _run(*bridge, "ip", "link", "set", "bridge", "up")
        hosts = {}
        for number, (name, address) in enumerate(addresses.items()):
            enter = stack.enter_context(_held(bridge, (), f"mount --bind {known.name} /etc/hosts", enter_user))
            hosts[name] = Host(address, enter)
            _join(bridge, f"port{number}", hosts[name])
        yield hosts


@contextmanager
def _held(
    within: Sequence[str], user: Sequence[str], prepare: str, enter_user: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """A namespace, made by a process within another; the command that enters it."""
    holder = subprocess.Popen(
        [*within, "unshare", *user, "--net", "--mount", "sh", "-c", f"{prepare} && {_HOLD}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"held\n":
            why = holder.communicate()[1].decode(errors="replace").strip()
            raise NoNamespacesError(f"a network namespace cannot be made: {why}")
        try:
            yield ("nsenter", f"--target={holder.pid}", *enter_user, "--net", "--mount")
        finally:
            holder.communicate()


def _join(bridge: Sequence[str], port: str, host: Host) -> None:
    """Connect a host to the bridge, and give it its address."""
    pid = host.enter[1].removeprefix("--target=")
    _run(*bridge, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pid)
    _run(*bridge, "ip", "link", "set", port, "master", "bridge", "up")
    host.run("ip", "address", "add", f"{host.address}/{_PREFIX}", "dev", "eth0")
    for each in ("lo", "eth0"):
        host.run("ip", "link", "set", each, "up")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespacesError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
