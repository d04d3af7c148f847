"""The settings of `[http]`: where the daemon answers HTTP, and to whom it shows its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from broker.config.kinds import (
    Choice,
    HostName,
    IpAddress,
    Several,
    SocketAddress,
    Switch,
    WebOrigin,
    Whole,
    host_and_port,
    is_loopback,
)
from broker.config.security import tls_lines
from broker.config.setting import about, live

OPEN: Final = "open"
USERS: Final = "users"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The HTTP server of the daemon: its health, and its figures.

    Needs the extra `http`: pip install 'evermq[http]'.
    """

    listen: str = field(
        default="",
        metadata=about(
            SocketAddress(),
            "Address to listen on, such as 127.0.0.1:9480; empty: none. Beyond this machine it needs tls = true, and a "
            "user who can log in.",
        ),
    )
    tls: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "true: listen serves TLS, with the certificate and key of [tls], which needs no host for that.",
        ),
    )
    metrics: str = field(
        default="auto",
        metadata=live(
            Choice(("auto", OPEN, USERS)),
            "Who may read /metrics at listen. open: everybody; users: who logs in and may display the queue manager, "
            "and of queues those that they may display; auto: open where only this machine reaches listen, else users.",
        ),
    )
    probes: str = field(
        default="",
        metadata=about(
            SocketAddress(),
            "A second address, for a kubelet or a scraper on another host, such as 0.0.0.0:9481; empty: none. Without "
            "TLS and users it answers /livez, /readyz, /startupz and /metrics, and nothing else.",
        ),
    )
    probes_metrics: bool = field(
        default=True,
        metadata=live(Switch(), "false: no /metrics at probes, where everybody who reaches it reads names of queues."),
    )
    connections: int = field(
        default=256,
        metadata=live(
            Whole(8, 1_000_000),
            "Most sockets open at a time at each of the two addresses; for one more the oldest goes that asks nothing.",
        ),
    )
    queues_max: int = field(
        default=2000,
        metadata=live(
            Whole(0, 1_000_000), "Most queues with figures of their own in /metrics; a figure counts those left out."
        ),
    )

    hosts: tuple[str, ...] = field(
        default=(),
        metadata=live(
            Several(HostName(), 'a list of names of hosts in quotes, such as ["mq.example.com"]'),
            "Names by which browsers and clients reach listen, beside localhost and its address. A request with any "
            "other Host is answered with 421: so no page of elsewhere reaches it by a name made to lead here.",
        ),
    )
    forwarded_from: tuple[str, ...] = field(
        default=(),
        metadata=live(
            Several(IpAddress(), 'a list of addresses in quotes, such as ["127.0.0.1"]'),
            "Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed. The callers of any other "
            "proxy have its address.",
        ),
    )
    rest_cors_allowed_origins: tuple[str, ...] = field(
        default=(),
        metadata=live(
            Several(WebOrigin(), 'a list of origins in quotes, such as ["https://shop.example.com"]'),
            "Origins whose pages may ask REST and /jobs from a browser (CORS), each with what its user may; none "
            "without. There is no star.",
        ),
    )
    rest_csrf_validation: bool = field(
        default=True,
        metadata=live(
            Switch(),
            "false: calls of REST that change something need no header ibm-mq-rest-csrf-token. What comes from pages "
            "of other origins is refused all the same.",
        ),
    )
    rest_messaging_enabled: bool = field(
        default=True, metadata=live(Switch(), "false: REST has no messaging, but administration and logins alone.")
    )
    connections_per_user: int = field(
        default=100,
        metadata=live(
            Whole(1, 100_000),
            "Most connections to the queue manager for the requests of one caller; the request behind them waits.",
        ),
    )

    @property
    def names(self) -> frozenset[str]:
        """The names by which `listen` is reached, in small letters, beside its addresses."""
        own = [host_and_port(self.listen)[0]] if self.listen else []
        return frozenset(each.lower() for each in (*self.hosts, *own))

    @property
    def pages(self) -> frozenset[str]:
        """The origins whose pages may ask REST, in small letters."""
        return frozenset(each.lower() for each in self.rest_cors_allowed_origins)

    @property
    def serves_others(self) -> bool:
        """True if programs of other machines reach `listen`."""
        return _beyond_this_machine(self.listen)

    @property
    def probes_serve_others(self) -> bool:
        """True if other machines reach `probes`."""
        return _beyond_this_machine(self.probes)

    @property
    def metrics_need_users(self) -> bool:
        """True if who reads /metrics at `listen` has to log in."""
        return self.metrics == USERS or (self.metrics != OPEN and self.serves_others)


def _beyond_this_machine(address: str) -> bool:
    return bool(address) and not is_loopback(host_and_port(address)[0])


def http_lines(listen: str) -> str:
    """Return the lines of `broker.toml` that serve HTTP to other machines on this address."""
    head, _, files = tls_lines("").partition('host = ""\n')
    return f'[http]\nlisten = "{listen}"\ntls = true\n\n{head}{files}'
