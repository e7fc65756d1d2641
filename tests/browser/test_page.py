"""The page as people use it: what is on it, the keyboard, both themes, paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from kai_sched.report.page.rendering import render
from tests.browser.conftest import OpenPage
from tests.unit.report.page_sample import HOSTILE, large_objects, page_input, small_objects

SHOWN = HOSTILE.replace("\u202e", "\\u202e")


def tile(page: Page, name: str) -> Locator:
    return page.locator(f'.node[title="{name}"]')


def fill(box: Locator) -> str:
    return str(box.evaluate("element => getComputedStyle(element).fill"))


def chosen(page: Page) -> str:
    return page.locator("#node-detail strong").inner_text()


def test_the_content_is_that_of_the_table(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    expect(page.locator("#summary")).to_contain_text("4 nodes, 24 GPUs: 14 used, 2 free, 8 on 1 unusable node")
    expect(page.locator("#queues tbody tr")).to_have_count(3)
    expect(page.locator("#waiting tbody")).to_have_count(1)
    expect(page.locator("#waiting tbody th")).to_have_text(f"ml/wait{SHOWN}")
    expect(page.locator("#starting tbody th")).to_have_text("ml/starts")
    expect(page.locator("#running tbody")).to_have_count(4)


def test_each_gpu_has_the_colour_of_its_queue(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    page.locator("#node-map").scroll_into_view_if_needed()
    expect(tile(page, "node-1").locator("rect")).to_have_count(10)  # seven whole ones, and one with two parts
    expect(tile(page, "node-3").locator("rect.apart-gpu")).to_have_count(8)
    nlp, other = (page.locator("#legend button", has_text=text).locator("rect") for text in ("nlp", "script"))
    boxes = tile(page, "node-1").locator("rect")
    assert fill(boxes.nth(1)) == fill(nlp) == fill(boxes.nth(3))
    assert fill(boxes.nth(2)) == fill(other) == fill(boxes.nth(9))
    assert fill(nlp) != fill(other)
    heights = [float(boxes.nth(place).get_attribute("height") or 0) for place in (0, 1, 2, 3)]
    assert heights == [15.0, 7.5, 7.5, 15.0]


def test_hostile_names_are_texts(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    assert page.locator("img").count() == 0
    page.locator("#node-map").scroll_into_view_if_needed()
    tile(page, "node-2").click()
    expect(page.locator("#node-detail")).to_contain_text(f"8 ml/run{SHOWN} ({SHOWN})")


def test_a_script_that_gets_in_does_not_run(small: Path, tmp_path: Path, open_page: OpenPage) -> None:
    """The policy is a second wall, so what it stops is told on the console."""
    path = tmp_path / "broken.html"
    evil = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"
    path.write_text(small.read_text("utf-8").replace("<footer>", f"<footer>{evil}"), "utf-8")
    opened = open_page(path)
    assert opened.page.evaluate("window.ran") is None
    assert len(opened.said) >= 2
    assert all("Content Security Policy" in text for text in opened.said)
    opened.said.clear()
    opened.requests.clear()


def test_the_page_cannot_ask_for_anything(small: Path, open_page: OpenPage) -> None:
    opened = open_page(small)
    ask = "fetch('https://127.0.0.1:9/').then(() => 'answered', () => 'refused')"
    assert opened.page.evaluate(ask) == "refused"
    assert "Content Security Policy" in opened.said[0]
    opened.said.clear()
    opened.requests.clear()


def test_the_keyboard_reaches_everything(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("wait")
    expect(page.locator("#waiting tbody:visible")).to_have_count(1)
    expect(page.locator("#running tbody:visible")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("#running tbody:visible")).to_have_count(4)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
    assert {"BUTTON.", "SUMMARY.", "DIV.node"} <= reached


def test_arrows_go_from_node_to_node(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    tile(page, "node-1").focus()
    assert chosen(page) == "node-1"
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "node-2"
    expect(tile(page, "node-2")).to_be_focused()
    page.keyboard.press("End")
    assert chosen(page) == "node-3 (cordoned)"
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "node-3 (cordoned)"
    page.keyboard.press("Home")
    assert chosen(page) == "node-1"
    assert page.locator('.node[tabindex="0"]').count() == 1


def test_down_goes_to_the_node_below(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    page.set_viewport_size({"width": 300, "height": 800})  # two tiles beside each other
    tile(page, "node-1").focus()
    page.keyboard.press("ArrowDown")
    assert chosen(page) == "node-3 (cordoned)"
    page.keyboard.press("ArrowUp")
    assert chosen(page) == "node-1"


def test_explanations_open_with_the_keyboard(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    page.locator("#waiting summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#waiting .explanation")).to_be_visible()


def test_a_queue_is_shown_alone(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    page.locator("#node-map").scroll_into_view_if_needed()
    expect(tile(page, "node-2").locator("rect")).to_have_count(8)
    button = page.locator("#legend button", has_text="nlp")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(tile(page, "node-2").locator("rect.pale")).to_have_count(8)
    button.click()
    expect(page.locator("rect.pale")).to_have_count(0)


def test_tables_are_sorted(small: Path, open_page: OpenPage) -> None:
    page = open_page(small).page
    names = page.locator("#running tbody th .name")
    button = page.locator("#running thead button", has_text="GPUs")
    button.click()
    assert names.all_inner_texts()[0].startswith("run")
    expect(page.locator("#running thead th").nth(4)).to_have_attribute("aria-sort", "descending")
    button.click()
    assert names.all_inner_texts()[-1].startswith("run")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_is_that_of_the_system_until_it_is_switched(theme: str, small: Path, open_page: OpenPage) -> None:
    page = open_page(small, color_scheme=theme).page
    back = "getComputedStyle(document.body).backgroundColor"
    backs = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
    assert page.evaluate(back) == backs[theme]
    page.keyboard.press("t")
    assert page.evaluate(back) == backs["light"]
    page.locator("#theme").click()
    assert page.evaluate(back) == backs["dark"]
    page.reload()
    assert page.evaluate(back) == backs["dark"]
    page.locator("#theme").click()
    assert page.evaluate(back) == backs[theme]


def test_paper_is_light_and_has_everything(small: Path, open_page: OpenPage) -> None:
    opened = open_page(small, color_scheme="dark")
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.locator("#filter")).to_be_hidden()
    expect(page.locator("#waiting .explanation")).to_be_visible()
    assert page.locator(".node svg:not(:has(rect))").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="screen")
    assert page.pdf().startswith(b"%PDF")


def test_of_a_thousand_nodes_those_in_view_are_drawn(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "large.html"
    path.write_text(render(page_input(large_objects())), "utf-8")
    page = open_page(path).page
    expect(page.locator(".node")).to_have_count(1000)
    page.locator("#node-map").scroll_into_view_if_needed()
    expect(page.locator(".node").first.locator("rect")).to_have_count(8)
    assert page.locator(".node svg:has(rect)").count() < 500
    page.locator(".node").first.focus()
    page.keyboard.press("End")
    expect(page.locator(".node").last.locator("rect")).to_have_count(8)


def test_what_changes_come_to_comes_first(tmp_path: Path, open_page: OpenPage) -> None:
    path = tmp_path / "changes.html"
    path.write_text(render(page_input(small_objects(), changes=["llama starts"], title="what if")), "utf-8")
    page = open_page(path).page
    expect(page.locator("main h2").first).to_have_text("What the changes come to")
    expect(page).to_have_title("what if - kai-sched")
