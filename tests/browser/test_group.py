"""A group's page: the judge's view, its scores, and the places where rollouts diverge."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from ruler_cli.results.report import embedded
from ruler_cli.results.report.group_text import common_lines
from tests.browser.conftest import Show
from tests.browser.reports import KEYS, groups, plain, report_of, ruler, write
from tests.browser.truth import Truth
from tests.browser.view import View
from tests.results.report.written import report

ROLLOUT = "section.g-rollout"
_LINES = """all => all.map(pre => {
  const own = pre.cloneNode(true);
  for (const mark of own.querySelectorAll(".g-unheard")) mark.remove();
  return own.textContent.replace("(ends here)", "");
})"""


def ranks(scores: list[float | None]) -> list[str]:
    """Ranks in words: equal scores share the best of their ranks."""
    some = sorted((s for s in scores if s is not None), reverse=True)
    result = [None if s is None else some.index(s) + 1 for s in scores]
    return [
        "no score"
        if rank is None
        else f"rank {rank}{', tied' if result.count(rank) > 1 else ''}"
        for rank in result
    ]


def opened(view: View, key: str, rest: str = "") -> View:
    """The group's page with all its messages in the document."""
    return built(view.open(f"#group={key}{rest}"))


def built(view: View) -> View:
    """Wait until each message of the shown rollouts is in the document."""
    view.find(".g-turns").last.wait_for(state="attached")
    view.settled()
    return view


def as_read(view: View, place: str) -> list[str]:
    """The lines of the messages in a part of the page, as the judge read them."""
    return list(view.find(f"{place} .g-turn pre").evaluate_all(_LINES))


@pytest.mark.smoke
def test_scores(view: View, truth: Truth) -> None:
    """Score, rank, label, spread, explanation and flag of every rollout are those of the file."""
    place = truth.place("task-2")
    group = truth.groups[place]
    opened(view, "task-2")
    shown = view.find(ROLLOUT)
    assert shown.count() == len(group.rollouts)
    named = ranks([r.score for r in group.rollouts])
    for i, rollout in enumerate(group.rollouts):
        one = view.find(f"{ROLLOUT}[data-rollout='{i + 1}']")
        head, about = (
            one.locator("h4").inner_text(),
            one.locator(".g-about").inner_text(),
        )
        assert head.split("\n")[0].startswith(f"#{i + 1}")
        assert named[i] in head
        assert float(one.locator("h4 b").inner_text()) == pytest.approx(
            rollout.score, abs=0.00051
        )
        assert f"reward {rollout.label:.0f}" in about
        assert f"spread {rollout.spread:.3f}".rstrip("0") in about
        assert one.locator("blockquote").inner_text() == rollout.explanation
        assert (
            ("Has text that addresses the judge." in about)
            == rollout.suspect
            == (i == 1)
        )
    rows = view.find(".g-scroll tbody tr").evaluate_all(
        "all => all.map(tr => [...tr.cells].map(c => c.textContent))"
    )
    best = sorted(range(4), key=lambda i: -(group.rollouts[i].score or 0))
    assert [row[0] for row in rows] == [f"#{i + 1}" for i in best]
    assert [int(row[1].rstrip("=")) for row in rows] == [
        int(named[i].split()[1].rstrip(",")) for i in best
    ]
    assert [float(row[2]) for row in rows] == [group.rollouts[i].score for i in best]


def test_head_of_the_group(view: View, truth: Truth) -> None:
    """The head of the page has the group's figures, its flags and a command that shows it on a terminal."""
    group = truth.groups[truth.place("task-2")]
    opened(view, "task-2")
    facts = dict(
        zip(
            view.find(".g-facts dt").all_text_contents(),
            view.find(".g-facts dd").all_text_contents(),
            strict=True,
        )
    )
    assert facts["Status"] == "scored, live: a trainer learns from it"
    assert facts["Judge"] == "simulated"
    assert facts["Passes"] == "2"
    assert float(facts["Mean score"]) == pytest.approx(group.mean, abs=0.00051)
    assert float(facts["Spread (sd)"]) == pytest.approx(group.sd, abs=0.00051)
    assert facts["Tokens"] == f"{truth.value(2, 'tokens'):,.0f}"
    assert (
        facts["Against the rewards"]
        == f"{100 * (group.disagreement or 0):.0f}% of the pairs"
    )
    assert facts["In the file"] == "group 3"
    assert view.find(".g-flags li").all_text_contents() == [
        "suspect: a rollout has text that addresses the judge"
    ]
    assert (
        view.find(".g-ways code").text_content()
        == "ruler report scored.jsonl --group task-2"
    )


def test_content_above_metadata(show: Show, run: Path, truth: Truth) -> None:
    """Scores, rewards and explanations come first; below them two lines of metadata, the rest on request."""
    group = truth.groups[truth.place("task-2")]
    view = built(show(run, "#group=task-2", width=1280, height=800))
    table, about = view.find(".g-scroll"), view.find(".g-meta")
    (top, end), (from_, to) = (
        (box["y"], box["y"] + box["height"])
        for box in (table.bounding_box(), about.bounding_box())
        if box
    )
    assert top < 300 < end < from_ < to < 800
    assert to - from_ < 3 * 22
    assert [
        rollout.explanation in table.inner_text() for rollout in group.rollouts
    ] == [True] * 4
    assert view.find(".g-facts").is_hidden()
    lines = [line for line in about.inner_text().split("\n") if line]
    assert len(lines) == 2
    assert lines[0].startswith("Worth a look: ")
    assert lines[1].startswith(
        f"simulated · 2 passes · mean {group.mean:.2f} · sd {group.sd:.2f} · reliability"
    )
    view.find(".g-meta summary").click()
    assert view.find(".g-facts").is_visible()


def test_group_on_a_phone(show: Show, run: Path, truth: Truth) -> None:
    """At 390 pixels every rollout's score and explanation is in the window, and nothing of it is cut."""
    group = truth.groups[truth.place("task-2")]
    view = built(show(run, "#group=task-2", width=390, height=844))
    rows = view.find(".g-scroll tbody tr")
    best = sorted(range(4), key=lambda i: -(group.rollouts[i].score or 0))
    for i, row in zip(best, rows.all(), strict=True):
        rollout = group.rollouts[i]
        assert row.locator("td[data-name=Score]").inner_text() == f"{rollout.score:.3f}"
        assert rollout.explanation in row.inner_text()
    assert view.find(".g-scroll").evaluate("e => e.scrollWidth <= e.clientWidth")
    columns = view.page.get_by_role("table").first.get_by_role("columnheader")
    assert (
        columns.count() == rows.first.locator("[role=cell], [role=rowheader]").count()
    )


@pytest.mark.parametrize("key", ["task-2", "task-12", "task-31"])
def test_view_of_the_judge(view: View, truth: Truth, scored: Path, key: str) -> None:
    """The lines of the page are, one for one, those of the request that `ruler prompt` prints."""
    prompt = ruler("prompt", scored, "--group", key, folder=scored.parent).stdout
    texts = re.findall(
        r"^<trajectory id=.*>\n([\s\S]*?)\n</trajectory>", prompt, re.MULTILINE
    )
    context = re.search(r"\n<context>\n([\s\S]*?)\n</context>", prompt)
    assert context is not None
    opened(view, key)
    view.by("checkbox", "as the judge read it").check()
    built(view)
    shown = view.find(ROLLOUT).evaluate_all(
        "all => all.map(section => section.dataset.rollout)"
    )
    lines = [as_read(view, f"{ROLLOUT}[data-rollout='{number}']") for number in shown]
    assert sorted("\n".join(rollout) for rollout in lines) == sorted(texts)
    assert "\n".join(as_read(view, ".g-shared")) == context[1]
    assert {tuple(rollout) for rollout in lines} == set(
        truth.texts[truth.place(key)].rollouts
    )


def test_side_by_side_and_one_by_one(view: View) -> None:
    """The buttons change the view and its link; one by one shows each rollout in turn, the best first."""
    opened(view, "task-2")
    assert view.find(ROLLOUT).count() == 4
    view.by("button", "one by one").click()
    view.at("#group=task-2&view=one")
    seen = []
    for i in range(4):
        view.find(".g-one .g-controls span").filter(has_text=f"{i + 1} of 4").wait_for()
        assert view.find(ROLLOUT).count() == 1
        seen.append(view.find(f"{ROLLOUT} h4 b").inner_text())
        if i < 3:
            view.by("button", "next →").click()
    assert view.by("button", "next →").is_disabled()
    assert seen == sorted(seen, key=float, reverse=True)
    view.find(".g-one select").select_option(value="2")
    view.at("#group=task-2&view=one&rollout=3")
    view.by("button", "side by side").click()
    view.at("#group=task-2&view=side&rollout=3").find(
        f"{ROLLOUT}.g-chosen[data-rollout='3']"
    ).wait_for()


@pytest.mark.parametrize("against", [1, 2, 3, 4])
def test_rollouts_diverge(view: View, truth: Truth, against: int) -> None:
    """Each rollout is marked at its first line that differs from the rollout it is compared with."""
    texts = truth.texts[truth.place("task-2")].rollouts
    opened(view, "task-2", f"&against={against}")
    assert view.find(f"{ROLLOUT}[data-rollout='{against}'] .g-parting").count() == 0
    for i in range(len(texts)):
        if i == against - 1:
            continue
        one = view.find(f"{ROLLOUT}[data-rollout='{i + 1}']")
        common = common_lines(texts[i], texts[against - 1])
        assert one.locator(".g-common .g-turn").count() == common
        assert one.locator(".g-turn").count() == len(texts[i])
        text = one.locator(".g-parting").inner_text()
        assert f"#{against}" in text
        assert (f"after {common} turn" if common else "at the first turn") in text
        assert one.locator(".g-to-parting").count() == 1


def test_first_unlike_character(view: View, truth: Truth) -> None:
    """In the line at which two rollouts diverge, the first character that differs is marked."""
    texts = truth.texts[truth.place("task-2")].rollouts
    opened(view, "task-2", "&against=1")
    view.by("checkbox", "as the judge read it").check()
    built(view)
    for i in (1, 2, 3):
        at = common_lines(texts[i], texts[0])
        mine, other = texts[i][at], texts[0][at]
        place = next(
            n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b
        )
        annotation = view.find(f"{ROLLOUT}[data-rollout='{i + 1}'] mark")
        before = "mark => mark.parentElement.textContent.split('first difference: ')[0].trim()"
        assert annotation.evaluate(before) == mine[:place].strip()
        assert (
            str(annotation.text_content()).split("first difference: ")[1] == mine[place]
        )


def test_identical_rollouts_once(view: View, truth: Truth) -> None:
    """Identical rollouts stand side by side once, and each names the one it is identical to."""
    place = truth.place("task-12")
    assert truth.texts[place].identical == (0, 1, 0, 3)
    opened(view, "task-12")
    shown = view.find(ROLLOUT).evaluate_all(
        "all => all.map(section => section.dataset.rollout)"
    )
    assert sorted(shown) == ["1", "2", "4"]
    assert view.find(f"{ROLLOUT}[data-rollout='1'] .g-about a").all_text_contents() == [
        "#3"
    ]
    assert "same text as #1" in view.find(".g-scroll").inner_text()


def test_order(view: View, truth: Truth) -> None:
    """Rollouts can stand in input order, best first, and in the order of a pass."""
    positions = [r.positions for r in truth.groups[2].rollouts]
    opened(view, "task-2", "&view=one")
    options = (
        "select => [...select.options].map(option => option.textContent.split(':')[0])"
    )
    order = view.by("combobox", "Order")
    for name, expected in (
        ("as in the input", [0, 1, 2, 3]),
        (
            "as the judge saw them, pass 1",
            sorted(range(4), key=lambda i: positions[i][0]),
        ),
        (
            "as the judge saw them, pass 2",
            sorted(range(4), key=lambda i: positions[i][1]),
        ),
        (
            "best first",
            sorted(range(4), key=lambda i: -(truth.groups[2].rollouts[i].score or 0)),
        ),
    ):
        order.select_option(label=name)
        assert view.find(".g-one select").evaluate(options) == [
            f"#{i + 1}" for i in expected
        ], name


def test_previous_and_next(view: View, truth: Truth) -> None:
    """Links and keys lead through the groups, the most telling first."""
    order = truth.ordered()
    opened(view, order[0])
    assert view.find(".g-steps a").count() == 1
    view.find(".g-steps a").click()
    built(view.at(f"#group={order[1]}"))
    for pressed, at in (
        ("j", 2),
        ("j", 3),
        ("k", 2),
        ("Alt+ArrowDown", 3),
        ("Alt+ArrowUp", 2),
    ):
        view.page.keyboard.press(pressed)
        built(view.at(f"#group={order[at]}"))
        assert f"{at + 1} of 60" in view.find(".g-steps").inner_text()
    assert view.find(".group-page h2").inner_text() == f"Group {order[2]}"
    built(view.go(f"#group={order[-1]}"))
    assert view.find(".g-steps a").all_inner_texts() == ["← previous group"]


def test_neighbours_of_a_table(view: View, truth: Truth) -> None:
    """From a table, the links lead through the groups of that table, in its order."""
    failed = [group.key for group in truth.groups if group.failed]
    view.open("#groups?where=failed&sort=ordinal").find(
        ".body [role=row]"
    ).first.wait_for()
    built(view.go(f"#group={failed[0]}"))
    assert f"1 of {len(failed)} as in the table" in view.find(".g-steps").inner_text()
    view.page.keyboard.press("j")
    built(view.at(f"#group={failed[1]}"))


def test_rollouts_by_key(view: View) -> None:
    """The arrows go from one rollout to the next, and the link with them."""
    opened(view, "task-2", "&view=one")
    for pressed, number in (
        ("ArrowRight", 3),
        ("ArrowRight", 2),
        ("ArrowRight", 4),
        ("ArrowLeft", 2),
    ):
        view.page.keyboard.press(pressed)
        view.at(f"#group=task-2&view=one&rollout={number}").find(
            f"{ROLLOUT}[data-rollout='{number}']"
        ).wait_for()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("key", "number"), [("task-5", 0), ("task-15", 1), ("task-25", 2)]
)
def test_failed_group(view: View, truth: Truth, key: str, number: int) -> None:
    """A group without scores shows its kind of error, its reason and its texts, and no number."""
    group = truth.groups[truth.place(key)]
    opened(view, key)
    notice = view.find(".g-notice.g-failed")
    assert f"Not scored ({group.kind}):" in notice.inner_text()
    assert group.reason in notice.inner_text()
    assert "--retry-failed" in notice.inner_text()
    assert view.find(f"{ROLLOUT} h4 b").all_text_contents() == ["–"] * 4
    assert view.find(f"{ROLLOUT} .g-turn").count() == sum(
        map(len, truth.texts[truth.place(key)].rollouts)
    )
    assert "no score" in view.find(ROLLOUT).first.inner_text()


def test_unknown_group(view: View) -> None:
    """A link to an unknown key shows that it is unknown, and leads to the closest keys."""
    view.open("#group=tsk-31")
    assert "No group in this report has the key: tsk-31" in view.text
    near = view.find(".unknown li a").all_text_contents()
    assert "task-31" in near
    assert len(near) <= 5
    view.find(".unknown").get_by_role("link", name="task-31", exact=True).click()
    built(view.at("#group=task-31"))


@pytest.mark.parametrize("key", sorted(set(KEYS)))
def test_encoded_keys(show: Show, odd: Path, key: str) -> None:
    """Any key can be linked: the row's link opens its group, and the address holds the key encoded."""
    view = show(odd, "#groups?sort=ordinal")
    row = view.find(f"[data-position='{KEYS.index(key)}']")
    link = str(row.locator("a").get_attribute("href"))
    assert re.fullmatch(r"#group=[A-Za-z0-9_.!~*'()%-]*", link)
    row.locator("a").click()
    assert view.at(link).page.evaluate("route.parse(location.hash).key") == key
    built(view)
    assert (
        view.find(".g-facts dd").last.text_content() == f"group {KEYS.index(key) + 1}"
    )
    assert "\u202e" not in view.text
    again = show(odd, link)
    assert (
        built(again).find(".group-page h2").inner_text()
        == view.find(".group-page h2").inner_text()
    )


def test_two_groups_with_one_key(show: Show, odd: Path) -> None:
    """Two groups of one key are distinct: each has a link of its own that opens it."""
    view = show(odd, "#groups?search=twice&sort=ordinal")
    links = view.find(".body .cell.key a").evaluate_all(
        "all => all.map(a => a.getAttribute('href'))"
    )
    assert len(set(links)) == 2
    places = []
    for link in links:
        built(view.go(link))
        places.append(view.find(".g-facts dd").last.text_content())
    assert places == [
        f"group {KEYS.index('twice') + 1}",
        f"group {len(KEYS) - KEYS[::-1].index('twice')}",
    ]


def test_group_without_text(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group without text in the file shows that, the command for its text, and its explanations."""
    monkeypatch.setattr(embedded, "MOST_TEXTS", 1_000)
    scored = write(
        tmp_path / "run.jsonl",
        [plain(f"g-{i}", 0.2, 0.8, output="said of it") for i in range(9)],
    )
    report(scored, tmp_path / "run.html")
    view = show(tmp_path / "run.html")
    left = view.page.evaluate("opened.rows.key.filter((_, i) => !opened.rows.text[i])")
    assert 0 < len(left) < 9
    assert (
        f"The texts of {9 - len(left)} of 9 groups"
        in view.find(".left-out").inner_text()
    )
    view.go(f"#group={left[0]}")
    notice = view.find(".g-notice")
    notice.first.wait_for()
    assert (
        notice.locator("code").inner_text()
        == f"ruler report run.jsonl --group {left[0]}"
    )
    text = view.find("section[aria-label=Explanations] p.g-foreign").all_inner_texts()
    assert [words.split(": ")[1] for words in text] == ["said of it"] * 2


def test_long_turns_are_folded(show: Show, tmp_path: Path) -> None:
    """A message of 100,000 characters is folded, and opens to its last character."""
    record = plain("long", 0.2, 0.8)
    record["trajectories"][0]["messages"][1]["content"] = "word " * 20_000 + "END"
    view = built(
        show(
            report_of(write(tmp_path / "long.jsonl", [record]), tmp_path), "#group=long"
        )
    )
    pre = view.find("[data-rollout='1'] pre").last
    assert "END" not in str(pre.text_content())
    view.by("button", "show all 100,003 characters").click()
    view.by("button", "show less").wait_for()
    assert str(pre.text_content()).endswith("word END")
    view.by("button", "show less").click()
    view.by("button", "show all 100,003 characters").wait_for()
    assert "END" not in str(pre.text_content())


def test_tools_and_calls(show: Show, tmp_path: Path) -> None:
    """Tools are listed once by name; a call is shown as its name and its arguments, indented."""
    records = groups(1)
    scored = plain("g", 0.2, 0.8)
    calling = next(t for t in records[0]["trajectories"] if len(t["messages"]) > 3)
    tool = {
        "type": "function",
        "function": {"name": "get_order", "parameters": {"type": "object"}},
    }
    for trajectory in scored["trajectories"]:
        trajectory["tools"] = [tool]
    scored["trajectories"][0]["messages"] = [
        *scored["trajectories"][0]["messages"][:1],
        *calling["messages"][1:],
    ]
    view = built(
        show(report_of(write(tmp_path / "tools.jsonl", [scored]), tmp_path), "#group=g")
    )
    assert "1: get_order" in view.find(".g-shared summary").last.inner_text()
    call = view.find(".g-turn.g-call").first
    assert call.locator(".g-badge").text_content() == "call get_order"
    assert orjson.loads(str(call.locator("pre").text_content())) == {"id": 7}


def test_own_rubric(show: Show, run: Path, tmp_path: Path) -> None:
    """A group's own rubric is shown as it is; a group without one has no such part."""
    rubric = "Be brief.\nsystem: say nothing twice."
    source = write(
        tmp_path / "rubric.jsonl", [plain("g", 0.2, 0.8) | {"rubric": rubric}]
    )
    part = built(show(report_of(source, tmp_path), "#group=g")).find(".g-shared").first
    assert part.inner_text().split("\n\n") == ["Rubric of this group", rubric]
    without = (
        built(show(run, "#group=task-2")).find(".g-shared summary").all_inner_texts()
    )
    assert [name for name in without if name.startswith("Rubric")] == []
