"""The page as a file: what is on it, how names are escaped, what its policy allows, how readable its colours are."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources

import pytest

from kai_sched.plan.result import QueueState
from kai_sched.report.page import rendering
from kai_sched.report.page.content import MOST_ROWS, page_content
from kai_sched.report.page.history import SAMPLE_NS, SAMPLES_MAX, History
from kai_sched.report.page.node_map import FREE, LEAVING
from kai_sched.report.page.rendering import json_block, render
from tests.unit.report.page_sample import HOSTILE, NOW_NS, large_objects, node, page_input, queue, small_objects

LINKS = {"src", "href", "action", "srcset", "data", "poster", "style"}


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


@pytest.fixture(scope="module")
def small() -> str:
    return render(page_input(small_objects()))


def test_names_cannot_become_tags_or_attributes(small: str) -> None:
    found = Tags(small)
    assert "img" not in {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert len(found.scripts) == 2  # the data and the script


def test_signs_that_turn_text_round_are_shown(small: str) -> None:
    assert "\u202e" not in small
    assert "\\u202e" in small


def test_the_page_names_nothing_outside_of_itself(small: str) -> None:
    links = [(tag, name) for tag, attributes in Tags(small).tags for name in attributes if name in LINKS]
    assert links == [("a", "href")]  # to the content
    assert "url(" not in small
    assert "@import" not in small


def test_the_policy_allows_the_style_and_the_script_by_their_digests(small: str) -> None:
    policy = next(attributes["content"] for tag, attributes in Tags(small).tags if "http-equiv" in attributes) or ""
    script = Tags(small).scripts[-1]
    style = small.partition("<style>")[2].partition("</style>")[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'none'"
    assert rules["script-src"] == f"'{rendering.digest(script)}'"
    assert rules["style-src"] == f"'{rendering.digest(style)}'"


def test_sentences_are_those_of_the_answers(small: str) -> None:
    given = page_input(small_objects())
    content = page_content(given)
    assert content.summary in small
    assert "ml/</span>" in small
    for each in given.overview.waiting:
        assert str(rendering.Markup.escape(each.why)) in small


def test_a_block_of_json_cannot_end_its_script() -> None:
    text = json_block({"name": "</script><!--&\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": "</script><!--&\u2028"}


def test_the_map_says_who_holds_each_gpu() -> None:
    found = page_input(small_objects()).nodes
    names = {work.name: place for place, (work, _) in enumerate(found.holders)}
    first, second, third = (each.gpus for each in found.nodes)
    assert first[0] == (names["half-a"], 0.5, names["half-b"], 0.5)
    assert first[1:5] == (names["llama"],) * 4
    assert first[5:] == (names["starts"], LEAVING - names["leaving"], LEAVING - names["leaving"])
    assert second == (names[f"run{HOSTILE}"],) * 8
    assert third == (FREE,) * 8
    assert found.nodes[2].state == "cordoned"
    assert found.without == 1


def test_holders_have_the_colour_of_their_queue() -> None:
    found = page_input(small_objects()).nodes
    queues = {work.name: found.queues[place] for work, place in found.holders}
    assert queues["llama"] == "nlp"
    assert queues["half-b"] == HOSTILE


def test_bars_end_where_the_amounts_are() -> None:
    rows = {each.state.name: each for each in page_content(page_input(small_objects())).queues}
    assert rows["nlp"].quota == "4"
    most = 46.0  # what "research" asks for
    assert rows["nlp"].asked_end == pytest.approx(100.0 * 37.5 / most, abs=0.01)
    assert rows["nlp"].held_end == pytest.approx(100.0 * 5.5 / most, abs=0.01)
    assert rows["nlp"].limit == "unlimited"


def test_a_cluster_without_gpus_has_a_page_without_a_map() -> None:
    text = render(page_input([node("cpu", gpus=0), queue("q", "", 0)]))
    assert 'id="node-data"' not in text
    assert "CPU cores" in text


def test_tables_are_bounded_and_say_so() -> None:
    given = page_input(small_objects())
    waiting = given.overview.waiting
    many = replace(given, overview=replace(given.overview, waiting=(waiting[0],) * (MOST_ROWS + 2)))
    content = page_content(many)
    assert len(content.waiting) == MOST_ROWS
    assert content.more["waiting"].startswith("2 more rows not listed")
    assert content.more["waiting"] in render(many)


def test_a_thousand_nodes_take_two_megabytes_at_most() -> None:
    assert len(render(page_input(large_objects())).encode()) < 2e6


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colours() -> dict[str, tuple[str, str]]:
    """The colours of the style: light and dark, by name."""
    style = resources.files("kai_sched.report.page").joinpath("page.css").read_text("utf-8")
    found = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", style)
    return {name: (light, dark) for name, light, dark in found}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_and_colours_can_be_told_apart(theme: int) -> None:
    found = {name: pair[theme] for name, pair in colours().items()}
    for back in ("back", "panel"):
        for text in ("text", "muted", "link", "warn", "good", "bad"):
            assert contrast(found[text], found[back]) >= 4.5, (text, back)
    for name in ("edge", "held", "fair", "quota", *(f"q{number}" for number in range(12))):
        assert contrast(found[name], found["back"]) >= 3.0, name


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def state(name: str, held: float) -> QueueState:
    amounts = (0.0, 0.0, held)
    return QueueState(name, "", 0, 0, amounts, amounts, amounts, amounts, amounts, amounts)


def test_the_last_hour_is_kept_by_the_minute() -> None:
    found = History()
    for second in range(0, 2 * 3600, 20):
        found.add(NOW_NS + second * 10**9, [state("a", float(second))])
    end = NOW_NS + 7140 * 10**9
    points = found.lines(end, "gpu")["a"].split(" ")
    assert len(points) == SAMPLES_MAX
    assert points[-1] == "60.0,1.0"
    assert found.lines(end + SAMPLE_NS * 200, "gpu") == {}


def test_a_queue_that_is_new_has_a_shorter_line() -> None:
    found = History()
    found.add(NOW_NS, [state("a", 1.0)])
    found.add(NOW_NS + SAMPLE_NS, [state("a", 0.0), state("b", 2.0)])
    lines = found.lines(NOW_NS + SAMPLE_NS, "gpu")
    assert lines["a"] == "59.0,1.0 60.0,19.0"
    assert lines["b"] == "60.0,1.0"


def test_the_map_of_a_cluster_without_pods_is_free() -> None:
    given = page_input([node("n"), queue("q", "", 1)])
    assert given.nodes.nodes[0].gpus == (FREE,) * 8
