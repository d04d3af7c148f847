"""The settings of `[limits]`: bounds on what programs can make the queue manager hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.config.kinds import Seconds, Whole
from broker.config.setting import GIB, KIB, MIB, YEAR, live


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """Bounds on what programs can make the queue manager hold."""

    unit_of_work_bytes: int = field(
        default=64 * MIB,
        metadata=live(Whole(KIB, 1 << 40), "Most message data in one unit of work; a put beyond it fails.", "bytes"),
    )
    frame_bytes: int = field(
        default=105 * MIB,
        metadata=live(
            Whole(64 * KIB, 1 << 30), "Longest frame accepted from a program: a message and its envelope.", "bytes"
        ),
    )
    connections: int = field(default=10_000, metadata=live(Whole(1, 1_000_000), "Most sockets open at a time."))
    conversations: int = field(
        default=10_000, metadata=live(Whole(1, 1_000_000), "Most connections (Hconn) at a time on one socket.")
    )
    in_flight_bytes: int = field(
        default=16 * MIB,
        metadata=live(
            Whole(64 * KIB, 1 << 30),
            "Most bytes of calls and their answers under way on one socket, before reading pauses.",
            "bytes",
        ),
    )
    server_bytes: int = field(
        default=128 * MIB,
        metadata=live(
            Whole(MIB, 1 << 40),
            "As in_flight_bytes, for all sockets together; beyond it each still has room for 32 KiB, and one of them "
            "for a long message.",
            "bytes",
        ),
    )
    frame_timeout: float = field(
        default=60.0,
        metadata=live(Seconds(0.1), "How long a program may take to send a call that it has begun to send.", "seconds"),
    )
    send_timeout: float = field(
        default=60.0,
        metadata=live(Seconds(0.1), "How long a program may leave answers unread before its line is cut.", "seconds"),
    )
    keys: int = field(
        default=1_000_000,
        metadata=live(
            Whole(1, 100_000_000),
            "Most keys of puts that are kept to tell duplicates, some 150 bytes each; a put with one more fails.",
        ),
    )
    script_bytes: int = field(
        default=4 * MIB,
        metadata=live(Whole(KIB, 1 << 30), "Longest text of commands in one call; a longer one fails.", "bytes"),
    )
    replies_bytes: int = field(
        default=64 * MIB,
        metadata=live(
            Whole(KIB, 1 << 40),
            "Most bytes of replies to one text of commands; at that point its run ends and says so.",
            "bytes",
        ),
    )
    body_bytes: int = field(
        default=16 * MIB,
        metadata=live(
            Whole(0, 1 << 40), "Data of persistent messages kept in memory; the rest is read back when needed.", "bytes"
        ),
    )
    claim_bytes: int = field(
        default=4 * GIB,
        metadata=live(
            Whole(KIB, 1 << 50),
            "Most message data that one consumer may have claimed; a claim ends there, and is no error.",
            "bytes",
        ),
    )
    claim_age: float = field(
        default=3600.0,
        metadata=live(
            Seconds(1.0, YEAR),
            "Age from which on claims are named in the log, once an hour, and in the status.",
            "seconds",
        ),
    )
    prepared_bytes: int = field(
        default=4 * GIB,
        metadata=live(
            Whole(KIB, 1 << 50), "Most message data in prepared units; what is staged beyond it fails.", "bytes"
        ),
    )
    in_doubt_units: int = field(
        default=10_000,
        metadata=live(
            Whole(1, 10_000_000),
            "Most units of work that are prepared and wait for what a program's database decides; one more fails.",
        ),
    )
    prepared_age: float = field(
        default=86400.0,
        metadata=live(
            Seconds(1.0, YEAR),
            "A prepared unit that nobody has staged to or published for so long is discarded.",
            "seconds",
        ),
    )
    login_timeout: float = field(
        default=5.0,
        metadata=live(
            Seconds(0.1, 600.0), "How long a program may take from its socket to its whole CONNECT.", "seconds"
        ),
    )
    login_bytes: int = field(
        default=64 * KIB,
        metadata=live(Whole(8 * KIB, MIB), "Most bytes that a program may send until its CONNECT is whole.", "bytes"),
    )
    logins: int = field(
        default=256,
        metadata=live(
            Whole(2, 1_000_000),
            "Most sockets at a time that have to log in and have not yet. The oldest of the address with most is "
            "closed for one more.",
        ),
    )
    logins_per_address: int = field(
        default=32,
        metadata=live(
            Whole(1, 1_000_000),
            "As logins, for one address (of IPv6: 64 bits). Twenty times as many where a program has logged in lately: "
            "more wait their turn there.",
        ),
    )
    handshakes: int = field(
        default=16, metadata=live(Whole(1, 1_000_000), "Most TLS handshakes of one address under way at a time.")
    )
    handshake_rate: int = field(
        default=50,
        metadata=live(
            Whole(1, 1_000_000),
            "Most TLS handshakes of one address, after twice as many at once; a socket more is closed. Eight times as "
            "many for all addresses; then they begin in turns, an address after the other.",
            "handshakes a second",
        ),
    )
    lines_per_address: int = field(
        default=5000,
        metadata=live(Whole(1, 1_000_000), "Most sockets of one address that have to log in or have logged in."),
    )
