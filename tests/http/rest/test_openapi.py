"""/openapi.json: the text that the server publishes of itself, and what it answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from broker.http.openapi.document import document
from tests.http.door import CSRF, Door, basic

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {"{version}": "v2", "{qmgr}": "QM1", "{queue}": "Q", "{delivery}": "x", "{id}": "0" * 48}

METHODS = ("get", "post", "delete", "patch")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The operations of the text: path, method, and what it says of them."""
    for path, item in document()["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def references(told: Any) -> Iterator[str]:
    match told:
        case {"$ref": str(name)}:
            yield name
        case dict():
            for each in told.values():
                yield from references(each)
        case list():
            for each in told:
                yield from references(each)


async def test_everybody_may_read_it(door: Door) -> None:
    answer = await door.ask("/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert json.loads(answer.text) == document()


def test_it_lists_the_statuses_of_rest_with_500_to_503() -> None:
    for path, _, told in operations():
        if path.startswith("/ibmmq/rest") and "messaging" in path:
            assert {"400", "401", "403", "404", "405", "500", "502", "503"} <= told["responses"].keys(), path
    message = document()["paths"]["/ibmmq/rest/{version}/messaging/qmgr/{qmgr}/queue/{queue}/message"]
    assert "501" in message["get"]["responses"]
    assert "501" in message["delete"]["responses"]


def test_all_that_it_names_is_in_it() -> None:
    schemas = document()["components"]["schemas"]
    assert {name.removeprefix("#/components/schemas/") for name in references(document())} == schemas.keys()
    for path, _, told in operations():
        named = {each["name"] for each in told.get("parameters", ()) if each["in"] == "path"}
        assert named == {name.strip("{}") for name in NAMES if name in path}, path


@pytest.mark.parametrize("who", ["nobody", "root", "root with the header"])
async def test_no_answer_is_one_that_it_does_not_list(door: Door, who: str) -> None:
    headers = {"nobody": (), "root": (basic("root"),), "root with the header": (basic("root"), CSRF)}[who]
    for path, method, told in operations():
        for name, value in NAMES.items():
            path = path.replace(name, value)
        body: object = {} if method == "post" else None
        answer = await door.ask(path, *headers, method=method.upper(), body=body)
        listed = told["responses"].get(str(answer.status))
        assert listed is not None, (method, path, answer)
        if answer.text:
            assert answer.headers["content-type"] in listed["content"], (method, path, answer)
        assert {"www-authenticate", "allow", "set-cookie"} & answer.headers.keys() <= {
            name.lower() for name in listed.get("headers", {})
        }, (method, path, answer)
