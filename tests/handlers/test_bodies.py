"""Bodies: what an app puts, and what a handler is given (handlers section 8)."""

from __future__ import annotations

import enum
import math
import pickle
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from uuid import UUID

import msgpack
import pydantic
import pytest

from broker import QueueManager
from broker.mqi import MQOO, MessageDescriptor
from tests.handlers.apps import Seen, Shop
from triggers import UnreadableError
from triggers.bodies.bodies import reader, written


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Size(enum.IntEnum):
    SMALL = 1


@dataclass
class Line:
    article: str
    price: Decimal
    count: int = 1


@dataclass
class Order:
    id: UUID
    placed: datetime
    lines: list[Line]
    note: str | None = None
    status: Literal["new", "paid"] = "new"
    colour: Colour = Colour.RED
    size: Size = Size.SMALL
    weight: float = 0.5
    tags: dict[str, list[int]] = field(default_factory=dict)
    corner: tuple[int, str] = (0, "")
    day: date = date(2026, 1, 1)
    at: time = time(12, 30)
    took: timedelta = timedelta(seconds=1.5)
    picture: bytes = b""
    parent: Order | None = None


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Customer(pydantic.BaseModel):
    name: str
    born: date
    mail: str = pydantic.Field(alias="e-mail")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    born: date


@dataclass
class Visit:
    customer: Customer
    address: Address


@dataclass
class Paid:
    amount: int


@dataclass
class Refunded:
    amount: int


Id = NewType("Id", str)

ORDER = Order(
    UUID(int=7),
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    [Line("pen", Decimal("1.20"), 3), Line("ink", Decimal(4))],
    note="ä",
    status="paid",
    colour=Colour.PAIR,
    weight=2,
    tags={"a": [1, 2]},
    corner=(1, "b"),
    picture=b"\x00\xff",
    parent=Order(UUID(int=8), datetime(2026, 1, 1), []),
)
CUSTOMER = Customer(name="Ann", born=date(1990, 1, 2), **{"e-mail": "ann@example.org"})

THERE_AND_BACK: dict[str, tuple[Any, Any]] = {
    "bytes": (bytes, b"\x00\x01"),
    "text": (str, "Grüße"),
    "dict": (dict, {"a": [1, 2.5, None, True, "x"]}),
    "dict of": (dict[str, int], {"a": 1}),
    "dict by number": (dict[int, str], {1: "a"}),
    "list": (list[Line], [Line("pen", Decimal("0.1"))]),
    "plain list": (list, [1, "a", {}]),
    "dataclass": (Order, ORDER),
    "typed dict": (Address, Address(street="Rue", number=3)),
    "model": (Customer, CUSTOMER),
    "strict model": (Strict, Strict(born=date(2000, 1, 1))),
    "model in a dataclass": (Visit, Visit(CUSTOMER, Address(street="Rue"))),
    "a union, the first": (Paid | Refunded, Paid(1)),
    "a union, the second, with the same fields": (Paid | Refunded, Refunded(1)),
    "a union with text": (Paid | str, "paid"),
    "a union with bytes": (Paid | bytes, b"paid"),
    "a union with bytes, the other": (Paid | bytes, Paid(2)),
    "anything": (Any, {"a": 1}),
    "a remark": (Annotated[Line, "remark"], Line("pen", Decimal(1))),
}


@pytest.mark.parametrize("way", ["embedded", "tcp"])
async def test_h8_1_each_type_goes_there_and_back(way: str) -> None:
    async with Shop(way) as shop:
        seen: dict[str, Seen] = {}

        def declare(q_name: str, annotation: Any) -> None:
            seen[q_name] = Seen()

            async def handle(body: Any) -> None:
                seen[q_name].add(body)

            handle.__annotations__["body"] = annotation
            shop.app.handler(q_name)(handle)

        for number, (annotation, _) in enumerate(THERE_AND_BACK.values()):
            declare(f"Q{number}", annotation)
        async with shop.running():
            for number, (_, body) in enumerate(THERE_AND_BACK.values()):
                await shop.app.put(f"Q{number}", body)
            for number, (name, (_, body)) in enumerate(THERE_AND_BACK.items()):
                [got] = await seen[f"Q{number}"].so_many(1)
                assert (got, type(got)) == (body, type(body)), name


async def read(annotation: Any, data: bytes | str, md: MessageDescriptor | None = None, **properties: Any) -> Any:
    """Return what a handler with this annotation is given, of a message that some program has put."""
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)", check=True)
        async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
            await queue.put(data, md, properties=properties or None)
            return reader(annotation)(await queue.get())


async def unreadable(annotation: Any, data: bytes | str, md: MessageDescriptor | None = None, **properties: Any) -> str:
    with pytest.raises(UnreadableError) as raised:
        await read(annotation, data, md, **properties)
    return str(raised.value)


@dataclass
class V1:
    id: int
    removed: str = "default"


@dataclass
class V2:
    id: int
    added: str = "default"


async def test_h8_2_a_field_that_was_added_or_removed_is_read_by_old_and_new_code() -> None:
    assert await read(V2, written(V1(1, "x")).data.decode()) == V2(1)
    assert await read(V1, written(V2(1, "x")).data.decode()) == V1(1)
    assert await read(Address, '{"street": "Rue", "door": 4}') == {"street": "Rue"}
    assert await unreadable(V1, "{}") == "id is missing"


async def test_h8_4_what_does_not_fit_is_told_by_path_the_first_three_and_without_values() -> None:
    data = '{"id": "SECRET", "placed": 5, "lines": [{"article": "a", "price": "SECRET"}, {"price": "1"}], "note": 9}'
    reported = await unreadable(Order, data)
    assert reported == (
        "id is not a UUID; placed is an integer, not a date and time in ISO 8601; "
        "lines[0].price is not a decimal number; and 2 more"
    )
    assert await unreadable(dict[str, int], '{"SECRET": "SECRET"}') == "[*] is text, not an integer"
    model = await unreadable(Customer, '{"name": "Ann", "born": "SECRET", "e-mail": 3}')
    assert model.startswith("born Input should be a valid date")
    assert "e-mail Input should be a valid string" in model
    assert "SECRET" not in reported + model


class Fussy(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        raise ValueError(f"{name} is wrong")


@dataclass
class Checked:
    name: str

    def __post_init__(self) -> None:
        raise ValueError(f"{self.name} is wrong")


async def test_what_a_program_itself_says_of_a_value_is_not_told() -> None:
    assert await unreadable(Fussy, '{"name": "SECRET"}') == "name value_error"
    assert await unreadable(Checked, '{"name": "SECRET"}') == "the body Checked does not take it (ValueError)"


async def test_h8_5_text_is_read_by_its_coded_character_set() -> None:
    ebcdic = MessageDescriptor(format="MQSTR", coded_char_set_id=500)
    assert await read(str, "Grüße".encode("cp500"), ebcdic) == "Grüße"
    assert await read(Line, '{"article": "ä", "price": "1"}'.encode("cp500"), ebcdic) == Line("ä", Decimal(1))
    utf_16 = MessageDescriptor(format="MQSTR", coded_char_set_id=1200, encoding=546)
    assert await read(str, "ä".encode("utf-16-le"), utf_16) == "ä"
    unknown = MessageDescriptor(format="MQSTR", coded_char_set_id=4711)
    assert await unreadable(str, b"a", unknown) == "coded character set 4711 is not known"
    utf_8 = MessageDescriptor(format="MQSTR", coded_char_set_id=1208)
    assert await unreadable(str, b"a\xff", utf_8) == "the body is not in coded character set 1208, from byte 1 on"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (42, TypeError), (1.5, TypeError), (True, TypeError), (None, TypeError), ({1, 2}, TypeError),
        (math.nan, TypeError), (object(), TypeError), (Colour.RED, TypeError),
        ({"a": {1}}, TypeError), ([object()], TypeError), ({"a": math.nan}, ValueError), ([math.inf], ValueError),
        (Line("a", Decimal("NaN")), ValueError), ([{}, {"a": [frozenset()]}], TypeError), ({(1, 2): 3}, TypeError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)  # fmt: skip
async def test_h8_8_what_has_no_form_is_refused_before_anything_is_sent(body: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        written(body)
    async with Shop() as shop, shop.running():
        await shop.mqsc("DEFINE QLOCAL(Q)")
        with pytest.raises(error):
            await shop.app.put("Q", body)
        assert await shop.depth("Q") == 0


async def test_h8_10_pickle_is_never_read() -> None:
    data = pickle.dumps({"a": 1})
    assert await unreadable(dict, data, content_type="pickle") == "content_type 'pickle' is neither JSON nor msgpack"
    assert "neither JSON nor msgpack" in await unreadable(dict, data)
    assert await read(bytes, data, content_type="pickle") == data


async def test_a_message_without_content_type_is_json_where_it_is_text_and_bytes_otherwise() -> None:
    assert await read(dict, '{"a": 1}') == {"a": 1}
    assert await read(dict | bytes, b"\x00") == b"\x00"
    assert await read(dict | str, "no JSON") == "no JSON"
    assert await read(dict | str, '{"a": 1}') == {"a": 1}
    assert await unreadable(dict, b'{"a": 1}') == (
        "format '' and no property content_type: these are bytes, neither JSON nor msgpack"
    )
    assert await unreadable(dict, '{"a": ') == "the body is no JSON at line 1, column 7"
    assert await unreadable(dict, '{"a": NaN}') == "the body is no JSON"
    assert await unreadable(dict, "[" * 100_000) == "the body is no JSON"
    assert await unreadable(list[int], '{"a": 1}') == "the body is an object, not a list"


async def test_msgpack_is_read_by_its_content_type() -> None:
    packed = msgpack.packb({"article": "pen", "price": "1.5", "count": 2})
    assert await read(Line, packed, content_type="application/msgpack") == Line("pen", Decimal("1.5"), 2)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    assert await read(
        dict[str, datetime], msgpack.packb({"a": when}, datetime=True), content_type="application/x-msgpack"
    ) == {"a": when}
    reported = await unreadable(Line, b"\xc1", content_type="application/msgpack")
    assert reported == "the body is no msgpack (FormatError)"


async def test_json_is_told_by_its_content_type_whatever_the_format() -> None:
    data = b'{"a": 1}'
    assert await read(dict, data, content_type="application/json; charset=utf-8") == {"a": 1}
    assert await read(dict, data, content_type="application/vnd.shop+json") == {"a": 1}


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (int | None, '"a"'), (bool, "1"), (int, "true"), (int, "1.0"), (float, '"1"'), (tuple[int, int], "[1]"),
        (Colour, '"blue"'), (Literal[1], "true"), (list[int], '[1, "2"]'), (bytes | None, "1"), (Id, "1"),
        (dict[int, int], '{"a": 1}'), (timedelta, '"1"'), (datetime, '"yesterday"'), (date, '"2026-13-01"'),
        (Decimal, '"x"'), (float, "1" + "0" * 400),
    ],
    ids=str,
)  # fmt: skip
async def test_what_is_not_of_the_type_is_not_made_to_fit(annotation: Any, data: str) -> None:
    @dataclass
    class Holder:
        value: Any

    Holder.__annotations__["value"] = annotation
    Holder.__dataclass_fields__["value"].type = annotation
    assert (await unreadable(Holder, f'{{"value": {data}}}')).startswith("value")


class Unknown:
    pass


@pytest.mark.parametrize("annotation", [Unknown, set[int], dict[bytes, int], list[Unknown], Paid | Unknown, complex])
def test_a_type_that_has_no_form_is_refused_with_those_that_have(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"what it may be made of|are str or int"):
        reader(annotation)


async def test_a_put_says_what_it_is() -> None:
    async with Shop() as shop, shop.running():
        await shop.mqsc("DEFINE QLOCAL(Q)")
        bodies = [b"\x00", "text", {"a": 1}, Line("pen", Decimal(1)), CUSTOMER]
        for body in bodies:
            await shop.app.put("Q", body, properties={"colour": "red"})
        reported = []
        for _ in bodies:
            message = await shop.get("Q")
            own = {name: message.properties[name] for name in ("content_type", "type") if name in message.properties}
            assert message.properties["colour"] == "red"
            assert message.md.persistence == 1
            reported.append((message.md.format, message.data, own))
        json = {"content_type": "application/json"}
        assert reported == [
            ("", b"\x00", {}),
            ("MQSTR", b"text", {}),
            ("MQSTR", b'{"a":1}', json),
            ("MQSTR", b'{"article":"pen","price":"1","count":1}', {**json, "type": "Line"}),
            ("MQSTR", b'{"name":"Ann","born":"1990-01-02","e-mail":"ann@example.org"}', {**json, "type": "Customer"}),
        ]
