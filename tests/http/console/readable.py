"""A page that can be read, by people and by programs that read it to them: contrast, names, levels of headings."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.http.console.chromium import Window

CONTRAST = """
const number = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (c) => (c / 255 <= .03928 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4);
const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
const ground = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = number(getComputedStyle(each).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const poor = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
  if (!own || !element.offsetParent || element.disabled) continue;
  const style = getComputedStyle(element);
  const [one, two] = [light(number(style.color)), light(ground(element))].sort((a, b) => b - a);
  const large = parseFloat(style.fontSize) >= 18.66;
  const ratio = (one + .05) / (two + .05);
  const words = `${element.tagName}.${element.className} ${element.textContent.slice(0, 30)}`;
  if (ratio < (large ? 3 : 4.5)) poor.push(`${words} ${ratio.toFixed(2)}`);
}
return poor;
"""

UNNAMED = """
const named = (each) => each.ariaLabel || each.textContent.trim() || each.title || (each.labels && each.labels.length);
return [...document.querySelectorAll("a, button, input:not([type=hidden]), select, table, nav, dialog")]
  .filter((each) => !named(each)).map((each) => each.outerHTML.slice(0, 120));
"""

LEVELS = """
return [...document.querySelectorAll("h1, h2, h3")].filter((each) => each.offsetParent).map((each) => +each.tagName[1]);
"""


def check_readable(window: Window, path: str) -> None:
    """Check the page of this path, which the window shows."""
    assert window.run(CONTRAST) == [], path
    assert window.run(UNNAMED) == [], path
    levels = window.run(LEVELS)
    assert levels[0] == 1, path
    assert all(after - before <= 1 for before, after in pairwise(levels)), (path, levels)
    assert window.run("return document.documentElement.scrollWidth <= innerWidth"), path  # nothing beside the page
    assert window.complaints() == [], path
