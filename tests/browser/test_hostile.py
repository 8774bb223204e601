"""Rollouts are hostile: in a report no text of theirs runs, loads, navigates or becomes an element."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from ruler_cli.ledger.database import digest_of
from ruler_cli.ledger.reply_cache import Ledger
from tests.attacks import FAMILIES
from tests.browser.attacks import HIT, NAME, RESTING, RUNNING, control, records
from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write
from tests.browser.view import View, shown

ATTACKS = [
    *RUNNING,
    *RESTING,
    *(attack.text for family in FAMILIES.values() for attack in family),
]
TAGS = frozenset(
    {
        "a",
        "article",
        "b",
        "bdi",
        "blockquote",
        "body",
        "br",
        "button",
        "circle",
        "code",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "em",
        "figcaption",
        "figure",
        "footer",
        "form",
        "g",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "head",
        "header",
        "html",
        "input",
        "kbd",
        "label",
        "legend",
        "li",
        "line",
        "main",
        "mark",
        "meta",
        "nav",
        "noscript",
        "ol",
        "option",
        "p",
        "path",
        "pre",
        "rect",
        "script",
        "section",
        "select",
        "span",
        "style",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
    }
)
"""The elements that the page itself makes; of these none loads, frames or embeds."""
_UNEXPECTED = """() => {
  const all = [...document.querySelectorAll("*")];
  const bad = [];
  const inside = all.filter(e => document.getElementById("app").contains(e));
  for (const e of all) {
    for (const { name, value } of e.attributes) {
      if (name.startsWith("on")) bad.push(`${e.localName} ${name}`);
      const leads = /^(xlink:)?href$|^(src|action|formaction|data|srcdoc|ping|poster)$/.test(name);
      if (leads && !value.startsWith("#"))
        bad.push(`${e.localName} ${name}=${value.slice(0, 80)}`);
      if (name === "style" && /url|expression|import|image/i.test(value)) bad.push(`${e.localName} ${value}`);
      if (name === "target") bad.push(`${e.localName} target`);
    }
  }
  for (const e of inside) {
    const plots = e.matches("svg > style") && e.textContent.trim().startsWith(":where(.plot");
    if (/^(script|style|meta|title|noscript)$/.test(e.localName) && !e.matches("svg title") && !plots)
      bad.push(`${e.localName} inside`);
  }
  const forms = [...document.querySelectorAll("form")].filter(f => !f.closest("#help"));
  const ids = all.map(e => e.id).filter(Boolean);
  return {
    bad, forms: forms.length, hit: window.__hit ?? null, tags: [...new Set(all.map(e => e.localName))],
    twice: ids.filter((id, i) => ids.indexOf(id) !== i),
    scripts: document.scripts.length, styles: document.querySelectorAll("style").length,
    polluted: ({}).__hit ?? null,
  };
}"""


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a file with all attacks in all places, under a name that is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    scored = folder / NAME
    scored.write_text(
        "".join(json.dumps(record) + "\n" for record in records(ATTACKS))
    )
    return report_of(scored, folder, "--max-groups", "10000").rename(
        folder / "hostile.html"
    )


def harmless(view: View) -> dict[str, Any]:
    """No text of a rollout has become an element, an attribute or a value."""
    result: dict[str, Any] = view.page.evaluate(_UNEXPECTED)
    assert result["hit"] is None
    assert result["polluted"] is None
    assert result["bad"] == []
    assert result["forms"] == 0
    assert result["twice"] == []
    assert set(result["tags"]) <= TAGS
    return result


@pytest.mark.smoke
def test_what_made_the_scores(show: Show, tmp_path: Path) -> None:
    """The rubric of a hostile ledger is text in the panel on what made the scores, once."""
    rubric = "\n".join(ATTACKS)[:15_000].encode(errors="replace").decode()
    digest = digest_of(rubric)
    record = plain("one", 0.2, 0.8)
    record["ruler"] |= {
        "rubric": digest,
        "params": "0" * 16,
        "version": RUNNING[0],
        "served": [RUNNING[1]],
    }
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_text(digest, "rubric", rubric)
    scored = write(tmp_path / "scored.jsonl", [record])
    view = show(
        report_of(scored, tmp_path, "--ledger", str(tmp_path / "ledger.sqlite"))
    )
    harmless(view)
    view.find(".made summary").click()
    harmless(view)
    rows = view.find(".made dd").all_inner_texts()
    assert (rows[0], rows[2]) == (RUNNING[1], RUNNING[0])
    assert rows[1].startswith(f"{digest}\n")
    assert RUNNING[0] in rows[1]
    assert view.find(".made").count() == 1


@pytest.mark.parametrize("attack", RUNNING, ids=range(len(RUNNING)))
def test_each_attack_would_run(
    browser: Browser, tmp_path: Path, attack: str
) -> None:
    """On a page without a policy that takes attacks as HTML, each attack fires."""
    with shown(browser, control(tmp_path, attack)) as view:
        view.page.goto(view.address)
        view.until("window.__hit === 1")


@pytest.mark.smoke
def test_overview(show: Show, hostile: Path) -> None:
    """The overview of a hostile file is an overview: no text of it runs or becomes an element."""
    view = show(hostile)
    harmless(view)
    assert view.find("figure.chart").count() >= 3
    assert "{{7*7}}" in view.find("h1").inner_text()
    assert "\\u202e" in view.find("h1").inner_text()
    assert "49" not in view.find("h1").inner_text()


def test_table(show: Show, hostile: Path) -> None:
    """All rows of the table show their values as text, in any order and with any filter."""
    view = show(hostile, "#groups?sort=ordinal", height=4_000)
    harmless(view)
    assert any(key.startswith("<") for key in view.keys)
    for hash_ in (
        "#groups?sort=key",
        "#groups?where=failed",
        "#groups?where=live&sort=-near",
        "#groups",
    ):
        view.go(hash_)
        harmless(view)
    assert view.find(".chip").count() > 2


def test_search(show: Show, hostile: Path) -> None:
    """Attacks can be searched for and filtered by, and are shown as text everywhere."""
    view = show(hostile, "#groups")
    for attack in (*RUNNING, *RESTING[:-1]):
        view.page.evaluate(
            "text => { location.hash = link({ search: text.slice(0, 400) }) }",
            _plain(attack),
        )
        view.until(
            "!document.querySelector('p[role=status]').textContent.includes('searching')"
        )
        harmless(view)
    view.page.evaluate(
        "text => { location.hash = `#groups?${new URLSearchParams([['where', text], [text, text]])}` }",
        RUNNING[0],
    )
    view.find(".warn").filter(has_text="not understood").wait_for()
    harmless(view)


def test_links(show: Show, hostile: Path) -> None:
    """An address made of an attack opens only the page for an unknown group."""
    view = show(hostile)
    for attack in (
        "#group=" + RUNNING[0],
        "#group=%3Cscript%3E&id=" + RUNNING[1],
        "#" + RUNNING[2],
        "#group=%E0%A4%A",
        "#group=__proto__x",
        "#groups?__proto__=1..2&constructor=1",
        "#javascript:window.__hit=1",
    ):
        view.page.evaluate("hash => { location.hash = hash }", attack)
        view.page.evaluate("() => new Promise(requestAnimationFrame)")
        harmless(view)
        assert view.find("main").count() == 1


@pytest.mark.parametrize("half", [0, 1])
def test_every_group(show: Show, hostile: Path, half: int) -> None:
    """No text of any group of a hostile file runs."""
    view = show(hostile, width=1400)
    count = view.page.evaluate("opened.rows.key.length")
    assert count > 60
    for row in range(half, count, 2):
        view.go(view.page.evaluate("row => groupHash(opened.rows, row)", row))
        result = harmless(view.settled())
        assert result["styles"] == 1
    for more in view.find(".g-turn button[aria-expanded=false]").all()[:4]:
        more.click()
    harmless(view)


def test_huge_message(show: Show, hostile: Path) -> None:
    """Two megabytes of attacks in one message unfold as text."""
    view = show(hostile, "#group=short").settled()
    view.find(".g-turn button[aria-expanded=false]").first.click()
    view.until(
        "[...document.querySelectorAll('.g-turn pre')].some(pre => pre.textContent.length > 2_000_000)"
    )
    harmless(view)


_TRIES = {
    "a script": f"made('script').append('{HIT}')",
    "a handler": f"made('button', {{ onclick: '{HIT}' }}).click()",
    "a written document": f"document.write('<script>{HIT}<\\/script>')",
    "a frame's document": "made('iframe', { srcdoc: '<script>parent.__hit=1<\\/script>' })",
    "a frame": "made('iframe', { src: at('f') })",
    "a link": f"made('a', {{ href: 'javascript:{HIT}' }}).click()",
    "an image": "made('img', { src: at('i') })",
    "a style's load": "made('style').append(`body { background: url(${at('u')}) }`)",
    "a stylesheet": "made('link', { rel: 'stylesheet', href: at('l') })",
    "a request": "fetch(at('q')).catch(() => 0)",
    "a socket": "new WebSocket('ws://127.0.0.1:9/w')",
    "a form": "made('form', { action: at('a') }).submit()",
    "a worker": "new Worker('data:text/javascript,0')",
    "a policy of its own": "trustedTypes.createPolicy('mine', { createScriptURL: String })",
    "text as a program": f"setTimeout('{HIT}', 0)",
    "a function of text": f"new Function('{HIT}')()",
}
"""Attempts of an attacker inside the page."""


@pytest.mark.parametrize("name", _TRIES)
def test_policy_holds(browser: Browser, run: Path, name: str) -> None:
    """Text or an element that gets into the page still cannot run, load or lead away."""
    with shown(browser, run) as view:
        refused: dict[str, str | None] = {}
        view.page.on(
            "requestfailed",
            lambda request: refused.update({request.url: request.failure}),
        )
        view.open()
        stopped = view.page.evaluate(_TRY % _TRIES[name])
        assert stopped, name
        assert view.page.evaluate("window.__hit ?? null") is None
        assert {
            refused[address] for address in view.asked if "127.0.0.1" in address
        } <= {"csp"}
        assert view.page.url.startswith(view.address)
        assert any(
            "Security Policy" in text or "Trusted" in text
            for text in [*view.messages, stopped]
        ), view.messages


_TRY = """() => new Promise(stopped => {
  setTimeout(() => stopped(""), 5_000);
  const at = path => `http://127.0.0.1:9/${path}`;
  const made = (name, attributes = {}) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return document.body.appendChild(element);
  };
  document.addEventListener("securitypolicyviolation", event => stopped(event.effectiveDirective));
  requestAnimationFrame(() => { // what Playwright itself evaluates may eval
    try { %s } catch (error) { stopped(`Trusted or Security Policy: ${error}`); }
  });
})"""


def _plain(attack: str) -> str:
    """Return a value that can be handed to a browser."""
    return attack.encode("utf-8", "replace").decode()
