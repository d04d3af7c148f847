"""`evermq unit`: a unit of systemd for this installation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from broker.cli.terminal.terminal import say

WATCHDOG_SECONDS: Final = 30
"""A daemon that gives no sign of life for so long is killed: handlers that hold the event loop for seconds do not end
it.
"""

_UNIT: Final = """\
# EverMQ as a service of systemd. {install}
[Unit]
Description=EverMQ queue manager
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec={watchdog}
ExecStart={command} run --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
TimeoutStopSec=60
{user}StateDirectory=evermq
StateDirectoryMode=0700
RuntimeDirectory=evermq
WorkingDirectory=%S/evermq
Environment=EVERMQ_QUEUE_MANAGER_DATA=%S/evermq/data EVERMQ_LISTENER_UNIX=%t/evermq/evermq.sock
# Secrets as credentials: [tls] key = "${{CREDENTIALS_DIRECTORY}}/server.key" with
# LoadCredential=server.key:{folder}/server.key
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
{mounts}
[Install]
WantedBy={target}
"""

_OF_SYSTEM: Final = """\
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
CapabilityBoundingSet=
"""

_OF_USER: Final = """\
# What needs a view of the file system of its own is left to services of the system.
"""


@click.command()
@click.option(
    "--config", "file", metavar="FILE", help="The broker.toml; else evermq/broker.toml in /etc, or ~/.config."
)
@click.option("--user", "of_user", is_flag=True, help="For systemctl --user, without an administrator.")
def unit(file: str | None, *, of_user: bool) -> None:
    """Print a hardened unit of systemd that runs this installation.

    Its data is in /var/lib/evermq, its Unix socket in /run/evermq; with --user in ~/.local/state and in
    /run/user.
    """
    where = "~/.config/systemd/user" if of_user else "/etc/systemd/system"
    steps = [f"evermq unit {'--user ' * of_user}> {where}/evermq.service"]
    if not of_user:
        steps.append("useradd --system --shell /usr/sbin/nologin evermq")
    systemctl = "systemctl --user" if of_user else "systemctl"
    steps += [f"{systemctl} daemon-reload", f"{systemctl} enable --now evermq"]
    say(
        _UNIT.format(
            watchdog=WATCHDOG_SECONDS,
            install=f"To install it:\n#     {(chr(10) + '#     ').join(steps)}",
            command=_installed(),
            config=quoted(str(Path(file).absolute())) if file else "%E/evermq/broker.toml",
            folder="%E/evermq",
            user="" if of_user else "User=evermq\n",
            mounts=_OF_USER if of_user else _OF_SYSTEM,
            target="default.target" if of_user else "multi-user.target",
        ).rstrip()
    )


def _installed() -> str:
    """Return the command that runs this installation: its script, else its interpreter with the package."""
    script = Path(sys.executable).with_name("evermq")
    return quoted(str(script)) if script.exists() else f"{quoted(sys.executable)} -m broker"


def quoted(text: str) -> str:
    """Return an argument as systemd reads it in ExecStart: whole, and with nothing in it that stands for more."""
    plain = text.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"' if any(sign in plain for sign in " \t\"'\\;") else plain
