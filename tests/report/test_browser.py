"""The page in a real browser: nothing overlaps, is cut off or is loaded, on any screen and in the dark."""

from __future__ import annotations

import pytest

COLLISIONS = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  words.forEach(([word, a], i) => {
    if (a.left < box.left - 2 || a.right > box.right + 2 || a.bottom > box.bottom + 3)
      found.push(`${svg.getAttribute('aria-label')}: ${word} is cut off`);
    for (const [other, b] of words.slice(i + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        found.push(`${svg.getAttribute('aria-label')}: ${word} / ${other}`);
  });
}
return found;
"""
TOO_WIDE = """
return [...document.querySelectorAll('body *')]
  .filter(one => !one.closest('.scroll') && !one.closest('nav') && one.getBoundingClientRect().right > innerWidth + 1)
  .map(one => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`);
"""
CONTRAST = """
function light(color) {
  const parts = color.match(/[\\d.]+/g).map(v => v / 255);
  const [r, g, b] = parts.map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
const card = light(getComputedStyle(document.querySelector('.card')).backgroundColor);
return [...document.querySelectorAll('.card svg text, .card td, .card th, .card p')].map(one => {
  const style = getComputedStyle(one);
  const word = light(one.closest('svg') ? style.fill : style.color);
  return (Math.max(card, word) + .05) / (Math.min(card, word) + .05);
}).reduce((least, one) => Math.min(least, one), 21);
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_neither_collide_nor_are_cut_off_on_any_screen(browser, page, theme):
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for width in (1400, 800, 400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page[0].path.resolve().as_uri())
        assert browser.execute_script(COLLISIONS) == []
        assert browser.execute_script(TOO_WIDE) == []
    assert browser.execute_script(CONTRAST) >= 4.5
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_paper_is_white_and_wide_enough(browser, page):
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": 703, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # A4 between its margins
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page[0].path.resolve().as_uri())
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 703
    assert browser.execute_script(COLLISIONS) == []
