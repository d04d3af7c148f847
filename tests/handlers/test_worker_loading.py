"""What `evermq worker` is given, and what it says where there is nothing to serve: one line each."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from broker.cli.program import CannotRunError
from broker.cli.worker.changes import FileChanges
from broker.cli.worker.loading import load_all, own_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = "from triggers import App, process\n"
HANDLER = "@{0}.handler('{1}', concurrency=7)\nasync def {0}_{1}(body: str) -> None: ...\n"
FILES = {
    "w_one": APP + "app = again = App('mq://host')\n" + HANDLER.format("app", "Q"),
    "w_two": APP + "a = App('mq://h')\nb = App('mq://h')\n" + HANDLER.format("a", "Q") + HANDLER.format("b", "R"),
    "w_none": APP + "app = App('mq://host')\n",
    "w_empty": "x = 1\n",
    "w_broken": "import no_such_module_here\n",
    "w_syntax": "app = (\n",
    "w_exits": "raise SystemExit(3)\n",
    "w_folder": APP + "app = App('data')\n" + HANDLER.format("app", "Q"),
    "w_periodic": APP
    + "app = App('mq://h')\n"
    + HANDLER.format("app", "Q")
    + "@app.every('1m')\nasync def tidy() -> None: ...\n",
    "w_process": APP + "@process('P')\nasync def on_message(trigger, connection): ...\n",
    "w_name": APP + "app = App('mq://h')\n" + HANDLER.format("app", "NO-SUCH").replace("_NO-SUCH", ""),
    "w_process_body": APP + "@process('P')\nasync def f(body: str) -> None: ...\n",
    "w_port": APP + "app = App('mq://h:14l4')\n" + HANDLER.format("app", "Q"),
    "w_unknown": APP + "app = App('mq://h')\n@app.handler('Q')\nasync def f(order: 'NoSuch') -> None: ...\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name, None)


def test_the_app_of_a_module_is_found_by_itself_and_by_its_name() -> None:
    loaded = load_all(["w_one", "w_two:b", "w_process"], None, None)
    assert loaded.apps.keys() == {"w_two:b", "w_one:again"}
    assert [module.__name__ for module in loaded.modules] == ["w_process"]
    assert loaded.apps["w_one:again"].handlers["Q"].concurrency == 7


def test_url_and_concurrency_go_before_what_the_app_says() -> None:
    app = load_all(["w_one"], "mq://other:1500", 3).apps["w_one:again"]
    assert str(app.source) == "mq://other:1500"
    assert app.handlers["Q"].concurrency == 3
    assert not load_all(["w_folder"], "mq://other", None).apps["w_folder:app"].source.embedded


def test_a_worker_serves_the_queues_that_it_names() -> None:
    loaded = load_all(["w_two:a", "w_two:b"], None, None)
    loaded.serve_only(["R"])
    assert [(target, list(app.handlers)) for target, app in loaded.apps.items()] == [("w_two:b", ["R"])]
    periodic = load_all(["w_periodic"], None, None)
    periodic.serve_only(["Q"])
    [app] = periodic.apps.values()
    assert (list(app.handlers), app.periodic) == (["Q"], [])


@pytest.mark.parametrize(
    ("targets", "reported"),
    [
        (["w_two:a"], "--queues: no app has a handler for 'R'; they have Q"),
        (["w_two:b", "w_process"], "--queues is for apps: w_process has functions with @process"),
    ],
)
def test_queues_that_a_worker_cannot_serve_are_named(targets: list[str], reported: str) -> None:
    with pytest.raises(CannotRunError, match=re.escape(reported)):
        load_all(targets, None, None).serve_only(["R"])


@pytest.mark.parametrize(
    ("target", "url", "reported"),
    [
        ("w_missing", None, "there is no module w_missing in "),
        ("w_missing.inner", None, "there is no module w_missing.inner in "),
        ("shop/orders.py", None, "shop/orders.py is a file: say the module as Python imports it, shop.orders"),
        ("w_empty", None, "w_empty has nothing to serve: no App, and no function with @process"),
        ("w_none", None, "w_none:app has no handlers: declare them with @app.handler"),
        ("w_two", None, "w_two has several apps, say which: w_two:a or w_two:b"),
        ("w_two:c", None, "w_two:c is not there: it has a, b"),
        ("w_empty:x", None, "w_empty:x is no App: it has no App"),
        ("w_broken", None, "w_broken does not import: ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("w_syntax", None, "w_syntax does not import: SyntaxError"),
        ("w_exits", None, "w_exits does not import: SystemExit: 3"),
        ("w_name", None, "'NO-SUCH' is not a name of a queue: 1 to 48 of A-Z a-z 0-9 % / _ . ("),
        ("w_name", None, "w_name.py, line 3)"),
        ("w_process_body", None, "is called with the trigger message and a connection: too many positional arguments"),
        ("w_process_body", None, 'to be handed the message: deliver="message"'),
        ("w_folder", None, "w_folder:app has the queue manager in data, which a worker cannot reach: say --url"),
        ("w_unknown", None, "NoSuch"),
        ("w_port", None, "mq://h:14l4: a port is a number of 0 to 65535"),
        ("w_one", "localhost", "localhost: not mq://[user@]host"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(target: str, url: str | None, reported: str) -> None:
    with pytest.raises(CannotRunError) as caught:
        load_all([target], url, None)
    assert reported in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_files_that_are_watched_are_the_users(modules: Path) -> None:
    load_all(["w_one"], None, None)
    files = own_files()
    assert str((modules / "w_one.py").resolve()) in files
    assert not [file for file in files if "site-packages" in file or "/triggers/app.py" in file]


def test_a_file_has_changed_when_it_was_written_replaced_or_removed(modules: Path) -> None:
    changes = FileChanges()
    path = modules / "w_one.py"
    changes.watch([str(path), str(modules / "absent.py")])
    assert changes.changed() == []
    path.write_text(FILES["w_one"] + "\n", "utf-8")
    assert changes.changed() == [str(path)]
    assert changes.changed() == []
    (modules / "next.py").write_text(FILES["w_one"] + "\n", "utf-8")
    (modules / "next.py").replace(path)
    assert changes.changed() == [str(path)]
    path.unlink()
    assert changes.changed() == [str(path)]
    (modules / "absent.py").touch()
    changes.watch([str(path)])
    assert changes.changed() == [str(modules / "absent.py")]
