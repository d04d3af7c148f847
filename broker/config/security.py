"""The settings for serving other machines: the TLS listener, who is believed, and the issuer of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.config.kinds import AnyText, Choice, FilePath, HostName, SecretFile, Several, Whole
from broker.config.setting import about, live

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC_KEY_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
SECRET_KEY_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
TOKEN_ALGORITHMS: Final = PUBLIC_KEY_ALGORITHMS + SECRET_KEY_ALGORITHMS

_optional: Final = FilePath(optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The listener for other machines, with TLS. Programs must log in there, or show a certificate."""

    host: str = field(
        default="",
        metadata=about(
            HostName(),
            'Address to listen on, such as "0.0.0.0" for all of IPv4; empty: only this machine is served.',
        ),
    )
    port: int = field(
        default=1415, metadata=about(Whole(0, 65535), "TCP port; 0 takes a free one, which the ready line names.")
    )
    certificate: Path | None = field(
        default=None,
        metadata=live(_optional, "Certificate of this host and those of its issuers, in PEM. Changes are noticed."),
    )
    key: Path | None = field(
        default=None, metadata=live(_optional, "Its private key, in PEM; empty: it is in the file of the certificate.")
    )
    key_password_file: Path | None = field(
        default=None, metadata=live(SecretFile(), "File with the password of the key; empty: the key has none.")
    )
    ca: Path | None = field(
        default=None,
        metadata=live(
            _optional,
            "Issuers of the certificates of programs, in PEM; empty: programs are asked for none.",
        ),
    )
    crl: Path | None = field(
        default=None,
        metadata=live(_optional, "Revoked certificates of programs (a CRL of each issuer), in PEM; empty: none."),
    )
    minimum: str = field(default="1.2", metadata=live(Choice(("1.2", "1.3")), "Lowest version of TLS accepted."))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Who is believed, and the checking of passwords."""

    loopback: str = field(
        default="auto",
        metadata=about(
            Choice(("auto", "trust", "check")),
            "Programs of this machine. trust: they are believed and may do everything; check: they log in as all "
            "others; auto: trust until the first user is defined, or [tls] host is set, or an [http] listen beyond "
            "this machine, then check for good.",
        ),
    )
    verifications: int = field(
        default=2,
        metadata=about(
            Whole(1, 64),
            "Most passwords verified at a time, each in a thread of its own, with 32 MiB of memory; of several "
            "processors one is left to the rest.",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensConfig:
    """The issuer whose tokens (JWT) log programs in.

    Needs the extra `tokens`: pip install 'evermq[tokens]'.
    """

    issuer: str = field(default="", metadata=about(AnyText(), "The issuer (iss) that a token names; empty: no tokens."))
    audience: str = field(default="", metadata=about(AnyText(), "The audience (aud) that a token names."))
    jwks: str = field(
        default="", metadata=about(AnyText(), "Keys of the issuer: an address that begins with https, or a path.")
    )
    user_claim: str = field(default="sub", metadata=about(AnyText(), "The claim of a token that is the user."))
    algorithms: tuple[str, ...] = field(
        default=PUBLIC_KEY_ALGORITHMS,
        metadata=about(
            Several(Choice(TOKEN_ALGORITHMS), f"a list of some of {', '.join(TOKEN_ALGORITHMS)}"),
            "Algorithms of signatures accepted. HS256, HS384 and HS512 need key_file.",
        ),
    )
    key_file: Path | None = field(
        default=None,
        metadata=about(SecretFile(), "File with the secret of HS256, HS384 and HS512; empty: none of them."),
    )


def tls_lines(host: str) -> str:
    """Return the lines of `broker.toml` that serve other machines on this address."""
    return f'[tls]\nhost = "{host}"\ncertificate = "server.pem"\nkey = "server.key"'
