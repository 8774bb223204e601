"""Hooks of mkdocs: pages and samples outside `docs/` join the site, and a page that loads something fails."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages outside `docs/`, and their names in the site. README.md is not among its pages; docs/index.md is."""
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
_LOADS = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="?(https?:[^"\s>]+)"""
)


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs/` and the samples."""
    for source, name in PAGES.items():
        if files.get_file_from_path(name) is None:
            files.append(
                File.generated(config, name, abs_src_path=str(ROOT / source))
            )
    for path in sorted((ROOT / "samples").rglob("*")):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(
    markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Lead links to files outside `docs/` to their places in the site."""
    name = page.file.src_uri
    outside = {
        inside: source
        for source, inside in PAGES.items()
        if inside != "index.md"
    }
    source = outside.get(name, f"docs/{name}")

    def moved(match: re.Match[str]) -> str:
        goal = posixpath.normpath(
            posixpath.join(posixpath.dirname(source), match[2])
        )
        goal = PAGES.get(goal, goal.removeprefix("docs/"))
        return f"{match[1]}{posixpath.relpath(goal, posixpath.dirname(name) or '.')}{match[3] or ''}{match[4]}"

    parts = re.split(
        r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL
    )
    return "".join(
        part if part.startswith("```") else _LINK.sub(moved, part)
        for part in parts
    )


def on_post_page(output: str, /, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads anything from another host."""
    if loaded := _LOADS.search(output):
        msg = f"{page.file.src_uri} loads {loaded[1]}"
        raise PluginError(msg)
    return output
