"""Files with secrets that others may write are refused, wherever they are named (security 10.5)."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

import pytest

from broker.config import ConfigError, load
from broker.config.kinds import DatabaseAddress
from broker.config.sections import QueueSharingGroupConfig
from broker.secret_files import SECRET_BYTES_MAX, SecretFileError, check_secret_file, read_secret

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return made(tmp_path / "secret", 0o600)


def made(path: Path, mode: int, data: bytes = b"canary\n") -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o640, 0o644, 0o755])
def test_a_file_that_its_owner_alone_may_write_is_read(mode: int, secret: Path) -> None:
    secret.chmod(mode)
    check_secret_file(secret)
    assert read_secret(secret) == b"canary"


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o664, 0o666, 0o777])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_others_may_write_is_refused_with_its_name_its_mode_and_what_to_do(
    mode: int, link: bool, secret: Path, tmp_path: Path
) -> None:
    secret.chmod(mode)
    if link:
        secret = tmp_path / "link"
        secret.symlink_to("secret")
    told = re.escape(f"others may write {secret} (mode {mode:04o}), and choose the secret: chmod go-w {secret}")
    for look in (check_secret_file, read_secret):
        with pytest.raises(SecretFileError, match=f"^{told}$"):
            look(secret)


def test_a_file_that_is_not_there_is_for_who_reads_it(tmp_path: Path) -> None:
    check_secret_file(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        read_secret(tmp_path / "none")


def test_a_pipe_is_nobody_elses_whatever_its_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    check_secret_file(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"canary\n"))
    writer.start()
    assert read_secret(pipe) == b"canary"
    writer.join()


@pytest.mark.parametrize(("length", "taken"), [(SECRET_BYTES_MAX, True), (SECRET_BYTES_MAX + 1, False)])
def test_a_secret_has_64_kib_at_most(length: int, taken: bool, secret: Path) -> None:
    made(secret, 0o600, b"x" * length)
    if taken:
        assert read_secret(secret) == b"x" * length
    else:
        with pytest.raises(SecretFileError, match="more than 64 KiB"):
            read_secret(secret)


@pytest.mark.parametrize(
    ("section", "key"),
    [("tls", "key_password_file"), ("tokens", "key_file"), ("queue_sharing_group", "dsn_password_file")],
)
def test_a_setting_names_no_file_that_others_may_write(section: str, key: str, secret: Path, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f'[{section}]\n{key} = "secret"\n', "utf-8")
    assert getattr(getattr(load(file, {}), section), key) == secret
    secret.chmod(0o660)
    told = (
        f"{file}: [{section}] {key}: others may write {secret} (mode 0660), and choose the secret: chmod go-w {secret}"
    )
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value) == told
    with pytest.raises(ConfigError, match="mode 0660"):
        load(None, {f"EVERMQ_{section}_{key}".upper(): str(secret)})


@pytest.mark.parametrize(
    "dsn",
    ["mysql://u:canary@h/db", "mysql://u:c?canary@h/db", f"mysql://u:canary{'x' * 99}@h", "host=h password=canary"],
)
def test_the_password_of_a_dsn_is_in_no_error_and_no_repr(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f'[queue_sharing_group]\ndsn = "{dsn}"\n', "utf-8")
    with pytest.raises(ConfigError, match="wants the address of a PostgreSQL database") as caught:
        load(file, {})
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(QueueSharingGroupConfig(name="GRP1", dsn="postgresql://u:canary@h/db"))


@pytest.mark.parametrize(
    ("address", "has"),
    [
        ("", False),
        ("postgresql://u@h:5432/db?sslmode=require", False),
        ("postgresql://u@/db?host=/run/postgresql&port=5432", False),
        ("postgresql://h:5432/db", False),
        ("postgresql://u:p@h/db", True),
        ("postgresql://u:p@h1:1,h2:2/db", True),
        ("postgresql://h/db?user=u&password=p", True),
    ],
)
def test_a_password_in_a_dsn_is_seen(address: str, has: bool) -> None:
    assert DatabaseAddress.has_password(address) == has
