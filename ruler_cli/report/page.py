"""The scripts and styles of a report, the policy that lets nothing else run, and the template."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

SCRIPTS = (
    *("vendor/lib.js", "base.js"),
    *("conditions.js", "plots.js", "charts.js", "overview.js", "filters.js", "table.js"),
    *("turns.js", "turnlist.js", "rollouts.js", "grouphead.js", "group.js", "app.js"),
)
"""The page's scripts in the order in which they run: each may use what those before it have made."""
STYLES = ("report.css", "overview.css", "group.css")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Web:
    """What the page is made of, as text: scripts in the order in which they run, styles, licences."""

    scripts: tuple[str, ...]
    style: str
    licences: str

    @property
    def policy(self) -> str:
        """The Content Security Policy: the page's own scripts run, and nothing is ever loaded."""
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src {' '.join(map(_hashed, self.scripts))}",
                "style-src 'unsafe-inline'",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        )


def web() -> Web:
    """The package's own files."""
    folder = files(__package__) / "web"

    def texts(names: Iterable[str]) -> Iterator[str]:
        return (_text(folder, name) for name in names if (folder / name).is_file())

    return Web(tuple(texts(SCRIPTS)), "\n".join(texts(STYLES)), _text(folder, "vendor/LICENSES.txt"))


def page(values: dict[str, Any]) -> Iterator[str]:
    """The page's text in pieces; what comes as an iterable in `values` is pulled as it is written."""
    found = web()
    yield from _template().generate(
        policy=found.policy,
        style=_raw(found.style),
        scripts=list(map(_raw, found.scripts)),
        licences=_raw(found.licences),
        **values,
    )


def shown_name(text: str) -> str:
    """A file's name as a title can hold it: nothing in it turns or hides the text."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # a report's alone

    kept = Environment(
        loader=PackageLoader("ruler_cli.report", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return kept.get_template("report.html.j2")


def _text(folder: Traversable, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def _raw(text: str) -> Any:
    """Text of this package, which is HTML as it stands."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - the package's own files, never what was read


def _hashed(script: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(script.encode()).digest()).decode()}'"
