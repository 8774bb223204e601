"""What each judge of a run is asked: passes, panels, windows, and when a judge is asked at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.estimate.bill import Seat
from ruler_cli.estimate.outlay import ESCALATED, Role
from ruler_cli.estimate.whole import Range, estimate
from ruler_cli.judges.prices import Model, Price
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.pool.estimates import Estimates
from ruler_cli.records import Fault, Group, Reply
from ruler_cli.scoring import plan
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings
from tests.estimate.one import estimate_one
from tests.values import group, talk

PRICE = Price(2e-6, 8e-6, 5e-7)
PLAIN = Model(PRICE, reasoning=False)
BODY = b'{"choices": [{"message": {"content": "{}"}}]}'
ALONE = group(talk("same"), talk("same"), key="alone")


def of(number: int, words: int = 30, key: str = "g") -> Group:
    """A group of rollouts that differ, and no two groups are alike."""
    return group(*(talk(f"{key} {i} " + "word " * words) for i in range(number)), key=key)


def seats(*roles: Role, model: Model = PLAIN) -> list[Seat]:
    """Judges with these roles."""
    return [Seat(f"j{i}", model, role=role) for i, role in enumerate(roles)]


made = st.builds(
    lambda sizes, words, alike, key: group(
        *(talk(f"{key} {0 if alike else i} " + "word " * words) for i in range(sizes)), key=str(key)
    ),
    st.integers(1, 11),
    st.integers(1, 400),
    st.booleans(),
    st.integers(0, 99),
)
asks = st.builds(
    AskSettings,
    passes=st.integers(1, 5),
    group_size=st.integers(2, 6),
    single=st.sampled_from(["flag", "score"]),
    order=st.sampled_from(["random", "input"]),
)
contexts = st.none() | st.integers(500, 3000)


def requests(groups: Sequence[Group], ask: AskSettings, passes: int = 99) -> int:
    """Requests by the planning functions, of the first `passes` at most."""
    sheets = [lay_out(each, ask) for each in groups]
    fit = [sheet for sheet in sheets if plan.windows(sheet, ask)]
    return sum(
        len(plan.parts(sheet, ask, turn)) for sheet in fit for turn in range(plan.turns(sheet, ask))[:passes]
    )


@given(groups=st.lists(made, max_size=4), ask=asks, context=contexts, adaptive=st.booleans())
def test_calls_are_those_planned(
    groups: list[Group], ask: AskSettings, context: int | None, adaptive: bool
) -> None:
    """Calls are those that the plan has: at least the passes sure to be made, as expected all of them."""
    found = estimate(groups, ask, [Seat("a", Model(context=context))], adaptive=adaptive)
    own = replace(ask, context_tokens=context)
    assert found.calls.expected == requests(groups, own)
    assert found.calls.low == requests(groups, own, 2 if adaptive else 99)
    assert found.calls.high == 2 * found.calls.expected
    shown = [lay_out(each, own) for each in groups]
    assert found.too_long == sum(plan.windows(sheet, own) == 0 for sheet in shown)
    assert found.windowed == sum(plan.windows(sheet, own) > 1 for sheet in shown)


@given(groups=st.lists(made, min_size=1, max_size=3), ask=asks, small=st.integers(600, 3000))
def test_each_judge_has_its_own_context(groups: list[Group], ask: AskSettings, small: int) -> None:
    """Judges of a panel add up to what each would be asked alone, whatever they can read."""
    models = [PLAIN, replace(PLAIN, context=small), replace(PLAIN, context=2 * small, reasoning=True)]
    found = estimate(groups, ask, [Seat(f"j{i}", each) for i, each in enumerate(models)])
    alone = [estimate_one(groups, ask, each) for each in models]
    for one, mine in zip(found.judges, alone, strict=True):
        assert one.calls == mine.calls
        assert one.prompt_tokens == mine.prompt_tokens
        assert one.completion_tokens == mine.completion_tokens
        assert one.cost_usd == mine.cost_usd
        assert (one.too_long, one.windowed) == (mine.too_long, mine.windowed)
    assert found.calls.expected == sum(each.calls.expected for each in alone)
    assert found.prompt_tokens.high == sum(each.prompt_tokens.high for each in alone)
    assert found.cap_usd == pytest.approx(sum(each.cap_usd or 0 for each in alone))
    assert found.too_long == 0  # one of them reads everything


def test_passes() -> None:
    """Passes multiply what is asked, but for a group with nothing to compare, which is asked once."""
    once, four = (estimate_one([of(3), ALONE], AskSettings(passes=n), PLAIN) for n in (1, 4))
    assert (once.calls, four.calls) == (Range(2, 2, 4), Range(5, 5, 10))
    scored = estimate_one([of(3), ALONE], AskSettings(passes=4, single="score"), PLAIN)
    assert scored.calls == Range(8, 8, 16)
    assert scored.prompt_tokens.expected == 4 * once.prompt_tokens.expected
    assert scored.completion_tokens.expected == 4 * once.completion_tokens.expected


def test_windows() -> None:
    """A large group is asked about in windows, twice at least, and each repeats what all have in common."""
    whole = estimate_one([of(20)], AskSettings(), PLAIN)
    parts = estimate_one([of(20)], AskSettings(group_size=5), PLAIN)
    assert (whole.windowed, whole.window_calls) == (0, Range(0, 0, 0))
    assert (parts.windowed, parts.window_calls) == (1, parts.calls) == (1, Range(8, 8, 16))
    assert parts.completion_tokens.expected == 2 * whole.completion_tokens.expected
    assert parts.prompt_tokens.expected > 2 * whole.prompt_tokens.expected


def test_adaptive() -> None:
    """Adaptive passes are two at least and as many as asked for on average at most."""
    uniform = estimate([of(3), ALONE], AskSettings(passes=6), seats("panel"))
    found = estimate([of(3), ALONE], AskSettings(passes=6), seats("panel"), adaptive=True)
    assert uniform.calls == Range(7, 7, 14)
    assert found.calls == Range(3, 7, 14)
    assert found.prompt_tokens.low < uniform.prompt_tokens.low
    assert found.cap_usd == uniform.cap_usd


def test_fallback() -> None:
    """The judges after the first are expected to be asked nothing, and at most everything."""
    found = estimate([of(3), of(2, key="h")], AskSettings(passes=2), seats("panel", "fallback"))
    assert [each.calls for each in found.judges] == [Range(4, 4, 8), Range(0, 0, 8)]
    assert found.judges[1].prompt_tokens.expected == 0 < found.judges[1].prompt_tokens.high
    assert found.calls == Range(4, 4, 16)


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        (Fault("refused", "no", "group"), 1),
        (Fault("transport", "gone", "group"), 0),
        (Reply("{}", body=BODY), 0),
    ],
)
def test_fallback_after_a_refusal(answer: Reply | Fault, more: int, tmp_path: Path) -> None:
    """A group that the first judge is known to refuse is one that the next is sure to be asked about."""
    with Ledger(tmp_path / "l.sqlite") as ledger:
        shelf = ReplyCache(ledger, "j0", {})
        request = compose(lay_out(of(3), AskSettings()), AskSettings()).request
        ledger.keep(shelf.key(request), "j0", answer, 1.0)
        two = [Seat("j0", PLAIN, kept=shelf), Seat("j1", PLAIN, role="fallback")]
        found = estimate([of(3), of(3, key="h")], AskSettings(), two)
    assert found.kept == 1
    assert found.judges[1].calls == Range(more, more, 4)


def test_escalation() -> None:
    """A stronger judge is asked about no group, some, or all but those with nothing to compare."""
    found = estimate([of(3), ALONE], AskSettings(passes=2), seats("panel", "escalation"))
    assert found.judges[1].calls == Range(0, 2 * ESCALATED.expected, 4)
    assert found.too_long == 0


def test_kept_by_pass_and_judge(tmp_path: Path) -> None:
    """What the ledger holds is told apart by judge, pass and window."""
    ask, one = AskSettings(passes=2, group_size=4), of(8)
    sheet = lay_out(one, ask)
    with Ledger(tmp_path / "l.sqlite") as ledger:
        shelves = [ReplyCache(ledger, name, {}) for name in "ab"]
        for shelf, wanted in zip(shelves, ([(0, 0), (1, 1)], [(1, 0)]), strict=True):
            for turn, window in wanted:
                request = compose(sheet, ask, plan.parts(sheet, ask, turn)[window]).request
                ledger.keep(shelf.key(request), "x", Reply("{}", body=BODY), 1.0)
        found = estimate([one], ask, [Seat(n, PLAIN, kept=s) for n, s in zip("ab", shelves, strict=True)])
    assert [each.kept for each in found.judges] == [2, 1]
    assert [each.calls for each in found.judges] == [Range(2, 2, 4), Range(3, 3, 6)]
    assert found.kept == 3


def test_too_long_for_one() -> None:
    """A group that one judge of a panel can read is not too long; one that none can read is, by key."""
    small, wide = Model(PRICE, 1500), Model(PRICE, 3000)
    long = of(2, 2000, "long"), of(2, 10_000, "longer")
    found = estimate([of(2, 1), *long], AskSettings(), [Seat("s", small), Seat("w", wide)])
    assert [each.too_long for each in found.judges] == [2, 2]
    assert (found.too_long, found.too_long_keys) == (2, ("long", "longer"))
    wide = Model(PRICE, 8000)
    found = estimate([of(2, 1), *long], AskSettings(), [Seat("s", small), Seat("w", wide)])
    assert [each.too_long for each in found.judges] == [2, 1]
    assert (found.too_long, found.too_long_keys) == (1, ("longer",))


def test_unknown_price_of_one() -> None:
    """The cost of a panel is not known where that of one judge is not."""
    found = estimate([of(2)], AskSettings(), [Seat("a", PLAIN), Seat("b", Model())])
    assert (found.cost_usd, found.cap_usd) == (None, None)
    assert found.judges[0].cost_usd is not None


def test_cap_admits_the_last_judge() -> None:
    """When all others have spent the most they may, the cap still lets a judge's first call be reserved."""
    price = Price(1e-9, 1e-3, 1e-9)
    roles: list[Role] = ["panel", "escalation"]
    found = estimate([of(2)], AskSettings(), seats(*roles, model=Model(price, reasoning=False)))
    request = compose(lay_out(of(2), AskSettings()), AskSettings()).request
    reserved = price.of(Estimates().highest(request))
    assert found.cost_usd is not None
    assert found.cap_usd == pytest.approx(2 * reserved)
    assert 2 * reserved > found.cost_usd.high
