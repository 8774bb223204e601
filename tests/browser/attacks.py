"""Attacks of a rollout on the page that shows it: HTML, scripts, styles, templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HIT = "window.__hit=1"
"""The script that each attack runs if it succeeds."""
RUNNING = (
    f"<script>{HIT}</script>",
    f"<img src=x onerror={HIT}>",
    f"<img src=x onerror='{HIT}'>",
    f'"><svg onload={HIT}>',
    f"'><svg/onload={HIT}>",
    f"</script><script>{HIT}</script>",
    f"--><script>{HIT}</script><!--",
    f"]]><script>{HIT}</script>",
    f"</title></style></textarea></noscript><script>{HIT}</script>",
    f"<body onload={HIT}>",
    f"<input autofocus onfocus={HIT}>",
    f"<details open ontoggle={HIT}><summary>x</summary></details>",
    f"<video><source onerror={HIT}></video>",
    "<iframe srcdoc='<script>parent.__hit=1</script>'></iframe>",
    "<iframe src='javascript:parent.__hit=1'></iframe>",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<math><mtext><img src=x onerror={HIT}></mtext></math>",
    f"<style>@keyframes x{{}}</style><b style='animation-name:x' onanimationstart={HIT}>b</b>",
)
"""Attacks that run at once if a page takes them as HTML."""
RESTING = (
    f"<a href=javascript:{HIT}>here</a>",
    f"javascript:{HIT}",
    f"java\tscript:{HIT}",
    f"data:text/html,<script>{HIT}</script>",
    "[here](javascript:window.__hit=1)",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/refresh'>",
    "<base href=http://127.0.0.1:9/base/>",
    "<link rel=stylesheet href=http://127.0.0.1:9/link>",
    "<style>@import 'http://127.0.0.1:9/import'; * { display: none }</style>",
    "<b style='background: url(http://127.0.0.1:9/url)'>b</b>",
    "<img src=http://127.0.0.1:9/img>",
    "<object data=http://127.0.0.1:9/object></object>",
    "<embed src=http://127.0.0.1:9/embed>",
    "<form action=http://127.0.0.1:9/form><input name=x><button>Go</button></form>",
    "<iframe src=http://127.0.0.1:9/frame></iframe>",
    "<script id=data>[]</script>",
    "<i id=app></i><i id=data></i><i id=texts></i><i name=opened></i><i id=search></i>",
    "<!--",
    "<!-- <script>",
    "{{7*7}}",
    "${window.__hit=1}",
    "#{window.__hit=1}",
    "{% raw %}{{ data }}",
    "<%= 7*7 %>",
    "`${window.__hit=1}`",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "toString",
    '{"__proto__": {"__hit": 1}}',
    "\x00\x01\x08\x0b\x0c\x1b[31m\x7f\x9b",
    "\u202egpj.exe\u2066\u2069\u200f\ufeff\u200b",
    "\ud800 \udfff lone",
    "\ufdd0\uffff\U0010ffff",
    "&lt;script&gt; &amp;amp; &#60;img&#62; &NotEqualTilde;",
    "a&where=failed#group=x?%00%2e",
    "%E0%A4%A",
    "\u0301" * 200 + "zalgo",
    "\r\n\r\nHTTP/1.1 200 OK",
    "x" * 5_000 + f"<img src=x onerror={HIT}>",
)
"""Attacks that load, navigate, hide or confuse, or run once they are pressed."""
HUGE = (f"<img src=x onerror={HIT}>" * 70_000)[: 2 << 20]
"""Two megabytes of an attack."""
_LONG = 100_000
"""Characters of the longest attack but the huge one, so that all groups can be looked at in a minute."""
NAME = f"<img src=x onerror={HIT}>\u202e{{{{7*7}}}}&amp;\x1b[31m.jsonl"
"""The name of a file."""


def records(attacks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Scored groups that hold these texts in every place that a page could show, four of them a group."""
    for first in range(0, len(attacks), 4):
        yield _group(
            [text[:_LONG] for text in attacks[first : first + 4]], first // 4
        )
    yield _group((HUGE, "short"), -1)


def _group(attacks: Sequence[str], number: int) -> dict[str, Any]:
    key = attacks[number % len(attacks)]
    first, last = attacks[0][:10_000], attacks[-1][:10_000]
    annotation: dict[str, Any] = {
        "judge": first,
        "passes": 2,
        "judged_at": last,
        "cost_usd": first,
    }
    if number % 5 == 4:
        annotation |= {"status": "failed", "kind": last, "reason": first}
        rollouts = [
            _rollout(
                text,
                {
                    "status": "failed",
                    "kind": text[:10_000],
                    "reason": text[:10_000],
                },
            )
            for text in attacks
        ]
    else:
        annotation |= {"status": "scored", "reliability": 0.5}
        rollouts = [
            _rollout(text, _scored(text, i / 8, attacks), reward=i / 8)
            for i, text in enumerate(attacks)
        ]
    return {
        "group_id": key if len(key) < 10_000 else "huge",
        "trajectories": rollouts,
        "ruler": annotation,
    }


def _scored(text: str, score: float, attacks: Sequence[str]) -> dict[str, Any]:
    return {
        "status": "scored",
        "score": score,
        "explanation": text[:10_000],
        "judge": text[:10_000],
        "judges": {name: 0.5 for name in attacks if len(name) < 10_000},
        "slots": [score, 0.5],
        "pass_scores": [score, score],
        "suspect": True,
        "independent_reward": score,
    }


def _rollout(
    text: str, annotation: dict[str, Any], reward: float | None = None
) -> dict[str, Any]:
    """A rollout with a text in every place for one; a huge one in its answer alone."""
    small = text if len(text) < 10_000 else "small"
    called = {
        "id": small,
        "function": {"name": small, "arguments": {small: [small]}},
    }
    turns: list[dict[str, Any]] = [
        {"role": "system", "content": small},
        {
            "role": "user",
            "content": [{"type": "text", "text": small}],
            "name": small,
        },
        {
            "role": "assistant",
            "content": text,
            "reasoning_content": small,
            "tool_calls": [called],
        },
        {
            "role": "tool",
            "tool_call_id": small,
            "name": small,
            "content": small,
        },
        {"role": small or "user", "content": small},
    ]
    tools = [
        {"type": "function", "function": {"name": small, "description": small}}
    ]
    return {
        "messages": turns,
        "tools": tools,
        "reward": reward,
        "ruler": annotation,
    }


def control(folder: Path, attack: str) -> Path:
    """A page without a policy that takes an attack as HTML."""
    page = folder / "control.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>x</title><p>{attack}",
        "utf-8",
        "replace",
    )
    return page
