"""The façade `broker`: its names, each loaded when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import broker
import broker.mqi
from broker.interface.port import Port

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(broker.__file__).parents[1]


def declared(package: ModuleType) -> dict[str, str]:
    """The public names as type checkers see them, each with its module."""
    tree = ast.parse(Path(str(package.__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name}


@pytest.mark.parametrize("package", [broker, broker.mqi], ids=["broker", "mqi"])
def test_what_type_checkers_see_is_what_is_there(package: ModuleType) -> None:
    assert sorted(declared(package)) == package.__all__
    for name, module in declared(package).items():
        assert getattr(package, name) is getattr(sys.modules[module], name)
        assert name in dir(package)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'broker' has no attribute 'conect'"):
        broker.conect  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'broker\.mqi' has no attribute 'MQFOO'"):
        broker.mqi.MQFOO  # type: ignore[attr-defined]  # noqa: B018


def test_a_client_does_not_load_the_queue_manager() -> None:
    program = "import broker, sys; broker.connect; print(sorted(name for name in sys.modules if 'engine' in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_each_call_of_the_port_is_described() -> None:
    calls = [member for name, member in vars(Port).items() if callable(member) and not name.startswith("_")]
    assert len(calls) > 20
    assert [call.__name__ for call in calls if not call.__doc__] == []


def test_the_version_is_that_of_what_is_installed() -> None:
    assert broker.__version__ == metadata.version("evermq")
    assert "__version__" in dir(broker)
    done = subprocess.run([sys.executable, "-m", "broker", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"evermq {broker.__version__}\n"


def test_sources_that_were_never_installed_say_so(tmp_path: Path) -> None:
    package = tmp_path / "broker"
    package.mkdir()
    (package / "__init__.py").write_bytes(Path(broker.__file__).read_bytes())
    program = "import broker; print(broker.__version__)"
    bare = [sys.executable, "-S", "-c", program]  # -S: without what is installed
    assert subprocess.run(bare, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "(not installed)\n"


def test_nobody_pays_for_a_version_that_is_not_asked_for() -> None:
    program = "import broker, sys; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
