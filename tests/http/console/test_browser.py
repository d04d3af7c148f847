"""The console in a real browser: what is clicked, what is typed, what changes while somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQMF, MQPMO, MessageDescriptor
from tests.http.console.chromium import Keys, opened_window, window, world
from tests.http.console.hostile import HOSTILE
from tests.http.console.readable import CONTRAST, check_readable

if TYPE_CHECKING:
    from tests.http.console.chromium import Window, World

__all__ = ["window", "world"]

PATHS = ("/", "/queues", "/queues/ORDERS", "/queues/ORDERS/messages")


def fill(world: World) -> bytes:
    """Something of everything; the MsgId of a message on ORDERS."""
    msg_id = world.put("ORDERS", '{"order": 1, "lines": [{"sku": "A"}]}', properties={"kind": "new"})
    for number in (1, 2, 5):
        md = MessageDescriptor(group_id=b"G" * 24, msg_seq_number=number, msg_flags=MQMF.MSG_IN_GROUP)
        world.put("ORDERS", f"part {number}", md)
    world.put("ORDERS", "uncommitted", options=MQPMO.SYNCPOINT)
    world.put("MAIL", b"\x00\xff", delay=3600)
    return msg_id


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_page_can_be_read_and_has_names_for_what_it_has(
    world: World, window: Window, width: int, dark: bool
) -> None:
    msg_id = fill(world)
    window.resize(width)
    window.dark(dark=dark)
    window.open("/login")
    assert window.run(CONTRAST) == []
    window.log_in()
    for path in (*PATHS, f"/queues/ORDERS/messages/{msg_id.hex()}"):
        window.open(path)
        window.wait("main h1")
        check_readable(window, path)


def test_n2_3_hostile_texts_are_texts_in_a_browser_whose_policy_has_nothing_to_report(
    world: World, window: Window
) -> None:
    ids = []
    for text in HOSTILE.values():
        plain = text.encode("utf-8", "replace").decode()
        properties = {"note": plain[:5000].replace("\x00", "")}
        ids.append(world.put("ORDERS", text.encode("utf-8", "surrogatepass")[:100_000], properties=properties))
    window.log_in()
    pages = ["/queues/ORDERS", "/queues/ORDERS/messages", *(f"/queues/ORDERS/messages/{each.hex()}" for each in ids)]
    for path in pages:
        window.open(path)
        window.wait("main h1")
        assert window.run("return document.querySelectorAll('script').length") == 1
        assert window.run("return document.querySelectorAll('img, iframe, style, base, b, object, embed').length") == 0
        assert window.run("return document.title").endswith("– QM1")
        assert window.driver.current_url == f"{window.base}{path}"
        assert window.complaints() == [], path
    assert "<script>alert(1)</script>" in window.find("body").text or window.link("Text")


def test_n1_1_n1_5_n1_6_the_tasks_take_three_clicks_at_most(world: World, window: Window) -> None:
    fill(world)
    window.log_in()
    window.wait("main", "ORDERS")  # the queue with the oldest message: no click at all
    # Look into a payload: the depth, the message.
    window.wait("[data-key=ORDERS]").find_element("css selector", "td:nth-child(3) a").click()
    window.wait("tbody tr a").click()
    assert "sku" in window.wait("main", "lines").text
    # Pause the queue: its name, the button.
    window.open("/")
    window.wait("[data-key=ORDERS] a").click()
    window.wait("button", "Pause gets").click()
    window.wait(".notice.good", "AMQ8008I")
    assert world.mqsc("DISPLAY QLOCAL(ORDERS) GET")[0].attributes[0]["GET"] == "DISABLED"


def test_n1_4_and_n1_7_run_now_what_is_delayed_and_see_what_is_held(world: World, window: Window) -> None:
    fill(world)
    window.log_in()
    window.wait("[data-key=MAIL]").find_element("css selector", "td:nth-child(3) a").click()
    window.wait("tbody tr a").click()
    window.wait("button", "Release now").click()
    window.wait(".notice.good", "It is available now.")
    window.open("/")
    window.wait("[data-key=ORDERS] a").click()
    assert "uncommitted put" in window.wait("#why").text
    assert "incomplete group" in window.find("#why").text


def test_what_changes_is_shown_without_a_reload_and_nothing_jumps(world: World, window: Window) -> None:
    world.put("ORDERS", "1")
    window.log_in()
    window.wait("#live", "live")
    window.run("window.kept = true")
    places = "return [...document.querySelectorAll('thead th')].map((each) => each.getBoundingClientRect().x)"
    before = window.run(places)

    async def put() -> None:
        async with world.owner.open("ORDERS", 16) as queue:
            await queue.put_many(["x"] * 12_344)

    world.portal.call(put)
    window.wait("[data-key=ORDERS]", "12,345")
    window.wait("[data-key=messages]", "12,345")
    assert window.run(places) == before
    world.put("MAIL", "new")
    window.wait("[data-key=MAIL]", "1")
    assert window.run("return window.kept")
    world.mqsc("CLEAR QLOCAL(MAIL)")
    window.wait("main", "1 empty")
    assert not window.all("[data-key=MAIL]")
    assert window.complaints() == []


def test_a_hidden_tab_asks_for_nothing_and_one_that_is_seen_again_goes_on(world: World, window: Window) -> None:
    assert world.server.parts is not None
    console = world.server.parts.console
    window.log_in()
    window.wait("#live", "live")
    assert console.streams == 1
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    tell = "document.dispatchEvent(new Event('visibilitychange'));"
    window.run(hide + tell, True)
    world.put("ORDERS", "1")
    window.driver.implicitly_wait(0)
    for _ in range(100):
        if not console.streams:
            break
        window.run("return 1")
        world.portal.call(world.manager.clock.sleep, 0.05)
    assert console.streams == 0
    assert not window.all("[data-key=ORDERS]")
    window.run(hide + tell, False)
    window.wait("[data-key=ORDERS]")
    assert console.streams == 1


def test_without_a_script_pages_read_and_forms_post(world: World) -> None:
    msg_id = fill(world)
    with opened_window(world.url, script=False) as window:
        window.log_in()
        window.wait("[data-key=ORDERS] a").click()
        window.wait("button", "Pause puts").click()
        window.wait(".notice.good", "AMQ8008I")
        window.open("/queues?q=mail")
        assert [each.text for each in window.all("tbody tr a")][:1] == ["MAIL"]
        window.open(f"/queues/ORDERS/messages/{msg_id.hex()}")
        window.wait(".action input[name=to]").send_keys("MAIL")
        window.wait("button", "Move").click()
        window.wait(".notice.good", "Moved to MAIL.")
        window.open(f"/queues/MAIL/messages/{msg_id.hex()}")
        window.wait("button", "Remove").click()
        window.wait(".notice.good", "Removed.")
        window.wait("button", "Log out").click()
        window.wait("[name=password]")
        window.open("/queues")
        window.wait("[name=password]")


def test_all_of_it_can_be_done_by_the_keyboard(world: World, window: Window) -> None:
    fill(world)
    window.open("/")
    window.wait("[name=user]").send_keys("alice")
    window.press(Keys.TAB)
    from tests.security.lines import PASSWORD

    window.press(PASSWORD, Keys.ENTER)
    window.wait("[data-key=ORDERS]")
    window.find("body").send_keys("?")
    assert window.wait("dialog[open]", "the next row")
    window.press(Keys.ESCAPE)
    window.find("body").send_keys("/")
    assert window.run("return document.activeElement.id") == "search"
    window.press("mail", Keys.ENTER)
    window.wait("main h1", "Queues")
    window.find("body").send_keys("j")
    assert window.run("return document.activeElement.textContent") == "MAIL"
    window.press(Keys.ENTER)
    window.wait("main h1", "MAIL")
    window.find("body").send_keys("g")
    window.wait("main h1", "Overview")
    window.find("body").send_keys("jj")
    assert window.run("return document.activeElement.textContent") == "MAIL"
    window.press("k")
    assert window.run("return document.activeElement.textContent") == "ORDERS"
    window.press(Keys.ENTER)
    window.wait("main h1", "ORDERS")
    for _ in range(60):
        window.press(Keys.TAB)
        if window.run("return document.activeElement.textContent") == "Pause gets":
            break
    assert window.run("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    window.press(Keys.ENTER)
    window.wait(".notice.good", "AMQ8008I")


def test_n4_1_a_user_without_a_right_sees_which_it_lacks(world: World, window: Window) -> None:
    msg_id = fill(world)
    window.log_in("bob")
    window.wait("[data-key=ORDERS]")
    assert not window.all("[data-key=MAIL]")
    window.open(f"/queues/ORDERS/messages/{msg_id.hex()}")
    remove = window.wait("button", "Remove")
    assert not remove.is_enabled()
    assert "needs get on ORDERS" in window.find("main").text
    window.open("/queues/ORDERS")
    assert "needs chg on ORDERS" in window.wait("main", "Actions").text
    window.open("/queues/MAIL")
    assert "2035" in window.wait(".notice.bad").text or "2085" in window.find(".notice.bad").text


def test_n5_1_a_session_ends_with_the_password_of_its_user(world: World, window: Window) -> None:
    window.log_in()
    window.wait("#live", "live")
    world.mqsc("ALTER USER('alice') STATUS(DISABLED)")
    window.wait("[name=password]", seconds=30)  # the open page finds out by itself


def test_n4_2_a_page_says_that_its_queue_manager_has_gone_and_goes_on_when_it_is_back(
    world: World, window: Window
) -> None:
    window.log_in()
    window.wait("#live", "live")

    world.go_away()
    window.wait("#live", "no connection")
    world.come_back()
    window.wait("[name=password]")  # by itself: the sessions of the life before are over
    window.log_in()
    window.wait("#live", "live")
