"""Texts of the command line → values; UsageError with the way out for a text that is none."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruler_cli.cli.units import count
from ruler_cli.config import JudgeSettings, MaxFailures
from ruler_cli.errors import UsageError

LEDGER_VARIABLE = "RULER_LEDGER"


def params(pairs: list[str] | None) -> dict[str, Any]:
    """`-p KEY=VALUE` → parameters; VALUE is JSON where it is JSON, else text."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            name, colon, given = pair.partition(":")
            example = f"{name}={given}" if colon and name and given else "temperature=0.2"
            raise UsageError(f"-p {pair}: write it as KEY=VALUE, e.g. -p {example}")
        if key == "api_key":
            raise UsageError("-p api_key: a key never stands on a command line; use --api-key-env VAR")
        if key in ("api_base", "base_url"):  # litellm would send its provider's key there
            raise UsageError(f"-p {key}: name the endpoint with --api-base URL")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def _price(text: str) -> tuple[float, float]:
    """`--price IN,OUT` → USD per million prompt and completion tokens."""
    try:
        given, taken = (float(part) for part in text.split(","))
        if not (0 <= given < float("inf") and 0 <= taken < float("inf")):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--price {text}: write two numbers, USD per million prompt and completion tokens, e.g. 2,8"
        ) from None
    return given, taken


def prices(texts: list[str] | None, number: int) -> Sequence[tuple[float, float] | None]:
    """`--price IN,OUT`, once for all judges or once for each → the price of each of `number`."""
    found = [_price(text) for text in texts or ()]
    if not found:
        return [None] * number
    if len(found) not in (1, number):
        raise UsageError(
            f"--price is given {len(found)} times for {count(number, 'judge')}; give it once for all, "
            "or once for each in order, the one of --escalate last"
        )
    return found * number if len(found) == 1 else found


def judges(names: list[str] | None, escalate: str | None, *, fallback: bool) -> list[str]:
    """`-m NAME`, repeated for a panel → the judges in order, that of `--escalate` last."""
    found = names or [JudgeSettings().model]
    every = [*found, escalate] if escalate is not None else found
    for name in every:
        if not name:
            raise UsageError("-m or --escalate: the judge has no name")
        if name.startswith("-"):
            raise UsageError(f"-m or --escalate: its value is missing in front of {name}")
        if name.endswith("/"):
            raise UsageError(f"-m or --escalate {name}: the model's own name is missing behind its provider")
        if every.count(name) > 1:
            raise UsageError(f"{name} is named twice as a judge; --passes asks one judge several times")
    if fallback and len(found) == 1:
        raise UsageError("--fallback needs another judge to fall back on; give -m again")
    return every


def max_failures(text: str | None) -> MaxFailures | None:
    """`--max-failures N|P%` → how much may fail."""
    if text is None:
        return None
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) if percent else int(text)
        if not 0 <= number <= (100 if percent else 10**12):
            raise ValueError
    except ValueError:
        raise UsageError(f"--max-failures {text}: write a number, e.g. 20, or a share, e.g. 5%") from None
    return MaxFailures(number, percent)


def rubric(text: str | None) -> str | None:
    """`--rubric TEXT` or `@FILE` → the text."""
    if text is None or not text.startswith("@"):
        if text and len(text) < 4096 and os.path.isfile(text):  # noqa: PTH113 - no error for what is no path
            raise UsageError(f"--rubric {text}: is a file; write @{text} to have it read")
        return text
    try:
        found = Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        from ruler_cli import suggestions

        lost = suggestions.suggest_file(text[1:]) if isinstance(error, FileNotFoundError) else None
        hint = suggestions.question(lost and f"@{lost}")
        raise UsageError(f"--rubric {text}: cannot be read: {why}{hint}") from None
    if not found:
        raise UsageError(f"--rubric {text}: the file is empty")
    return found


def ledgers(given: list[str] | None) -> tuple[Path | None, tuple[Path, ...]]:
    """`--ledger` as often as given, else its variable → the ledger that is written, and the others."""
    from ruler_cli.ledger.database import ledger_path

    if not given:
        return ledger_path(os.environ.get(LEDGER_VARIABLE)), ()
    first, *others = given
    if _is_pattern(first):
        raise UsageError(
            f"--ledger {first}: the first ledger is written, and a pattern names several; write --ledger "
            f"PATH --ledger '{first}'"
        )
    if others and "none" in (first, *others):
        raise UsageError("--ledger none: keeps nothing, so no other --ledger goes with it; leave one out")
    if "" in others:
        raise UsageError("--ledger: one of them has no name; give its path")
    named = [name for other in others for name in _matched(other)]
    return ledger_path(first), tuple(path for path in map(ledger_path, named) if path is not None)


def _is_pattern(text: str) -> bool:
    """Whether a name stands for several; a file that is called so is itself."""
    return glob.has_magic(text) and not os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111 - no error for what is no path


def _matched(text: str) -> list[str]:
    """The ledgers that a name stands for, in order; UsageError where a pattern stands for none."""
    if not _is_pattern(text):
        return [text]
    from ruler_cli.ledger.database import expand_home

    found = sorted(glob.glob(str(expand_home(text))))  # noqa: PTH207 - a pattern may begin at the root
    if not found:
        raise UsageError(f"--ledger {text}: no file matches this pattern; check the path")
    return found
