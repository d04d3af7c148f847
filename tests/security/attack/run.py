"""One run: a network of three hosts, the daemon, the honest side, the attacker, and what was seen."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker import connect
from broker.benchmarks.child import child
from tests.hostile.verdict import faults_of_stop, unexplained
from tests.security.attack.attacker import attack
from tests.security.attack.honest import Handled, LoggedIn, work
from tests.security.attack.insiders import trusted_half_open, trusted_handshakes, verbs
from tests.security.attack.report import QUIET, Phase, Report
from tests.security.attack.scene import ADDRESSES, NAMES, attack_scene
from tests.security.attack.sockets import half_open, port_scan, random_bytes, slow_frames
from tests.security.attack.strangers import handshake_flood, resumption, spray, tokens
from tests.security.attack.watch import watch
from tests.security.network.namespaces import network

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.benchmarks.child import Child
    from tests.durability.daemon import Daemon
    from tests.security.attack.attacker import Attacker
    from tests.security.attack.scene import AttackScene
    from tests.security.attack.watch import Sample

ATTACKS: Final[dict[str, Callable[[Attacker], Coroutine[Any, Any, None]]]] = {
    "port-scan": port_scan,
    "half-open": half_open,
    "handshakes": handshake_flood,
    "spray": spray,
    "tokens": tokens,
    "resumption": resumption,
    "slow-frames": slow_frames,
    "random-bytes": random_bytes,
    "verbs": verbs,
    "trusted-half-open": trusted_half_open,
    "trusted-handshakes": trusted_handshakes,
}
TOGETHER: Final = "all at once"
LOG: Final = "daemon.log"

_MEMORY: Final = Path("/dev/shm")
_ROUND_SECONDS: Final = 10.0
"""An attack lasts about so long; then comes the next one, and later it comes again."""

_RELOAD_SECONDS: Final = 30.0
_DISPLAYED: Final = (
    "DISPLAY QMGR ALL", "DISPLAY USER(*) ALL", "DISPLAY AUTHREC ALL", "DISPLAY CHLAUTH(*) ALL",
    "DISPLAY AUTHINFO(*) ALL", "DISPLAY CHANNEL(*) ALL", "DISPLAY PROCESS(*) ALL", "DISPLAY QUEUE(*) ALL",
)  # fmt: skip
_COUNTS: Final = ("CURDEPTH", "IPPROCS", "OPPROCS")


@dataclass
class Chosen:
    """The kind of run: so many seconds of attack, and as many of quiet as a third of them. `only` names attacks."""

    seconds: float = 60.0
    only: str = ""

    def names(self) -> list[str]:
        """The attacks. Raises ValueError for a name of none."""
        names = self.only.split(",") if self.only else list(ATTACKS)
        if unknown := set(names) - ATTACKS.keys():
            raise ValueError(f"there is no attack {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
        return names


async def run(folder: Path, chosen: Chosen) -> Report:
    """Run it, with the log of the daemon and all that was seen under `folder`. Raises NoNamespacesError."""
    names = chosen.names()
    waves = [[name] for name in names] + ([names] if len(names) > 1 else [])
    phases: list[Phase] = []
    samples: list[Sample] = []
    wrong: list[str] = []
    with network(ADDRESSES, NAMES) as hosts, TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else folder) as data:
        async with attack_scene(folder, Path(data), hosts["server"]) as scene:
            at, seen = scene.at, folder / "seen.json"
            before = await _displayed(scene)
            async with (
                child(
                    work, prefix=hosts["elsewhere"].enter, url=at.url, ca=str(at.ca), token=scene.token, seen=str(seen)
                ) as honest,
                child(attack, prefix=hosts["attacker"].enter, ca=str(at.ca), forged=scene.forged) as attacker,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(watch, at.daemon.pid, samples)
                await honest.prepared()
                await attacker.prepared()
                await honest.go()
                share = chosen.seconds / len(waves)
                rounds = max(round(share / _ROUND_SECONDS), 1)
                for wave in waves * rounds:
                    phases.append(await _quiet(share / rounds / 3))
                    phases.append(await _attack(attacker, wave, share / rounds))
                    await _reload(at.daemon)
                phases.append(await _quiet(share / rounds / 3))
                await attacker.go()
                wrong += (await attacker.result())["wrong"]
                await honest.prepared()
                await honest.go()
                told = await honest.result()
                wrong += told["complaints"]
                tasks.cancel_scope.cancel()
            wrong += _differences(before, await _displayed(scene))
            wrong += await faults_of_stop(at.daemon)
            log = at.daemon.log
    (folder / LOG).write_text("".join(log), "utf-8")
    wrong += [f"in its log: {record.strip()}" for record in unexplained(log, ())]
    found = json.loads(seen.read_text("utf-8"))
    handled = [Handled(*each) for each in found["handled"]]
    logins = [LoggedIn(*each) for each in found["logins"]]
    return Report(wrong, phases, handled, logins, samples, log, told["put"])


async def _quiet(seconds: float) -> Phase:
    began = time.monotonic()
    await anyio.sleep(seconds)
    return Phase(QUIET, began, time.monotonic(), {})


async def _attack(attacker: Child, wave: list[str], seconds: float) -> Phase:
    began = time.monotonic()
    await attacker.go({"attacks": wave, "seconds": seconds})
    reported = await attacker.prepared()
    return Phase(wave[0] if len(wave) == 1 else TOGETHER, began, time.monotonic(), reported["seen"])


async def _reload(daemon: Daemon) -> None:
    """Have the certificates loaded again."""
    number = sum("certificate reloaded" in line for line in daemon.log)
    os.kill(daemon.pid, signal.SIGHUP)
    with anyio.fail_after(_RELOAD_SECONDS):
        await daemon.logged("certificate reloaded", number=number + 1)


async def _displayed(scene: AttackScene) -> dict[str, Any]:
    """All definitions, and how many messages are on each queue: asked of the daemon's own machine."""
    found: dict[str, Any] = {}
    async with connect(f"mq+unix://{scene.socket}") as connection:
        for command in _DISPLAYED:
            for reply in await connection.mqsc(command):
                assert reply.ok, reply.text
                for number, attributes in enumerate(reply.attributes):
                    counts = {name: attributes.pop(name) for name in _COUNTS if name in attributes}
                    found[f"{command} {number}"] = attributes, counts.get("CURDEPTH", 0)
    return found


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{name} is {after.get(name)}, and was {before.get(name)}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
