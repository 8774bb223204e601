"""Links between pages, headings and files, and the navigation of the site."""

from __future__ import annotations

import re
import unicodedata
from operator import gt

from tests.docs.pages import OTHERS, ROOT, Report, names, prose, read

MOST = (200, 4_000, 20)
"""Lines of README.md, lines of the pages of `docs/`, and pages."""
_LINK = re.compile(r"""\]\(([^)\s]+)\)|<(?:a href|img src)="([^"]+)\"""")


def anchors(text: str) -> dict[str, str]:
    """Return the headings of a page by the anchor that GitHub gives them."""
    found = (re.match(r"#+ (.*)$", line) for _, line in prose(text))
    return {_github(match[1]): match[1] for match in found if match}


def _github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _site(heading: str) -> str:
    """Return the anchor that the site gives a heading."""
    plain = (
        unicodedata.normalize("NFKD", heading)
        .encode("ascii", "ignore")
        .decode()
    )
    return re.sub(
        r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()
    )


def check_links(report: Report) -> None:
    """Check that each relative link leads to a file of this checkout and to a heading of it."""
    pages = {(ROOT / name).resolve(): name for name in names()}
    found = {path: anchors(read(name)) for path, name in pages.items()}
    count = 0
    for path, name in pages.items():
        for number, line in prose(read(name)):
            for target in map("".join, _LINK.findall(line)):
                if re.match(r"[a-z]+:", target):
                    continue
                count += 1
                file, _, anchor = target.partition("#")
                goal = (path.parent / file).resolve() if file else path
                if not goal.exists():
                    report.wrong.append(
                        f"{name} line {number} links to {file}, which does not exist"
                    )
                elif anchor and anchor not in found.get(goal, {}):
                    report.wrong.append(
                        f"{name} line {number} links to #{anchor}, which is no heading there"
                    )
    report.done.append(f"{count} relative links")


def check_markdown(report: Report) -> None:
    """Check what GitHub and the site would show differently: anchors, and lists without a line above."""
    for name in names():
        text = read(name)
        for anchor, heading in anchors(text).items():
            if name.startswith("docs/") and anchor != _site(heading):
                report.wrong.append(
                    f"{name}: the heading {heading!r} has two addresses: name it in words"
                )
        before = ""
        for number, line in prose(text):
            starts = re.match(r"([-*]|[0-9]+\.) |\|", line)
            if (
                starts
                and before
                and not re.match(r"([-*]|[0-9]+\.) |\||\s", before)
            ):
                report.wrong.append(
                    f"{name} line {number}: put an empty line before the list or table"
                )
            before = line


def check_length(report: Report) -> None:
    """Check that README.md is short, and the pages of `docs/` are few and short together."""
    lines = [len(read(name).splitlines()) for name in names()]
    pages = lines[len(OTHERS) :]
    now = lines[0], sum(pages), len(pages)
    if any(map(gt, now, MOST)):
        report.wrong.append(f"lines and pages are {now}, more than {MOST}")
    report.done.append(f"lines and pages {now}")


def check_navigation(report: Report) -> None:
    """Check that the navigation of mkdocs.yml names every page of `docs/`."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r": (\S+\.md)$", settings, re.MULTILINE))
    for name in names():
        if name.startswith("docs/") and name[5:] not in listed:
            report.wrong.append(
                f"{name} is not in the navigation of mkdocs.yml"
            )
