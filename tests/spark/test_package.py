"""The package `broker.spark`: its names, and what it says where its extra is not installed."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import broker.spark


def test_nothing_of_spark_is_loaded_before_it_is_used() -> None:
    program = "import broker.spark, sys; print(sorted({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_its_names_are_there() -> None:
    assert broker.spark.__all__ == ["JavaNotFoundError", "finish", "register", "session"]
    assert all(callable(getattr(broker.spark, name)) for name in broker.spark.__all__)
    assert set(broker.spark.__all__) <= set(dir(broker.spark))
    with pytest.raises(AttributeError, match=r"module 'broker\.spark' has no attribute 'sesion'"):
        broker.spark.sesion  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("missing", "what"), [("pyspark.sql", "pip install 'evermq\\[spark\\]'"), ("broker.x", r"^None$")]
)
def test_what_is_not_installed_is_told_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, missing: str, what: str
) -> None:
    def absent(name: str) -> object:
        raise ModuleNotFoundError(None, name=missing)

    monkeypatch.setattr(broker.spark, "import_module", absent)
    monkeypatch.delitem(vars(broker.spark), "register", raising=False)
    with pytest.raises(ModuleNotFoundError, match=what):
        broker.spark.register  # noqa: B018
    monkeypatch.undo()
    importlib.reload(broker.spark)
