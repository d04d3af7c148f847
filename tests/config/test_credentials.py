"""Paths of credentials, which systemd puts into a directory of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.config import ConfigError, load

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "${CREDENTIALS_DIRECTORY}/secret"


@pytest.mark.parametrize(
    ("section", "key"), [("tls", "key"), ("tls", "key_password_file"), ("tokens", "key_file")]
)  # fmt: skip
def test_a_path_may_name_the_directory_of_credentials(tmp_path: Path, section: str, key: str) -> None:
    (tmp_path / "secret").write_text("secret\n", "utf-8")
    (tmp_path / "secret").chmod(0o400)
    file = tmp_path / "broker.toml"
    file.write_text(f'[{section}]\n{key} = "{PLACE}"\n', "utf-8")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert getattr(getattr(load(file, environ), section), key) == tmp_path / "secret"
    variable = {f"EVERMQ_{section}_{key}".upper(): PLACE}
    assert getattr(getattr(load(None, environ | variable), section), key) == tmp_path / "secret"
    with pytest.raises(ConfigError, match="there is no CREDENTIALS_DIRECTORY: systemd sets it"):
        load(file, {})
