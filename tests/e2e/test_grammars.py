"""The schemas of an answer in the grammars of the engines: every score that a judge writes is allowed.

vLLM and SGLang compile a schema with xgrammar by default, and with llguidance or outlines-core if told to.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import chain
from types import ModuleType
from typing import Any

import pytest

from ruler_cli.judges.chat_completions import Form, response_format
from ruler_cli.scoring.parse_reply import parse
from ruler_cli.types import Criterion, Request

LABELS = ("kqzt", "bdfg")
CRITERIA = {"xwvt": Criterion("Is short."), "rrnp": Criterion("Is long.")}
FORMS: tuple[Form, ...] = ("keyed", "list")
SCORES = ["0.8", "0.85", "0.9", "1.0", "0", "0.80", "1", "0.07", "0.29", "0.0"]
Accepts = Callable[[dict[str, Any], str], bool]


class _StandIn(ModuleType):
    """A module that xgrammar imports and these tests do not need."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *_, **__: None})


@cache
def _imported() -> tuple[Any, Any]:
    """Import xgrammar and its tests' functions, without torch and transformers where they are missing."""
    with suppress(ImportError):
        importlib.import_module(
            "tvm_ffi"
        )  # before the stand-ins: it asks torch about devices
    for name in ("torch", "transformers", "triton"):
        if name not in sys.modules and find_spec(name) is None:
            sys.modules[name] = _StandIn(name)
    return pytest.importorskip("xgrammar"), importlib.import_module(
        "xgrammar.testing"
    )


def xgrammar(schema: dict[str, Any], text: str) -> bool:
    """Return whether xgrammar lets a judge write a text."""
    module, testing = _imported()
    grammar = module.Grammar.from_json_schema(json.dumps(schema))
    return bool(testing._is_grammar_accept_string(grammar, text))


def llguidance(schema: dict[str, Any], text: str) -> bool:
    """Return whether llguidance lets a judge write a text, byte by byte."""
    module = pytest.importorskip("llguidance")
    tokenizer = module.LLTokenizer("byte")
    matcher = module.LLMatcher(
        tokenizer, module.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    )
    assert not matcher.is_error(), matcher.get_error()
    tokens = tokenizer.tokenize_str(text)
    return bool(
        matcher.try_consume_tokens(tokens) == len(tokens)
        and matcher.is_accepting()
    )


def outlines_core(schema: dict[str, Any], text: str) -> bool:
    """Return whether outlines-core lets a judge write a text."""
    module = pytest.importorskip("outlines_core")
    return (
        re.fullmatch(
            module.json_schema.build_regex_from_schema(json.dumps(schema)), text
        )
        is not None
    )


def answer(form: Form, score: str, criteria: Collection[str]) -> str:
    """Write the answer that a form asks for, with one number for all rollouts and criteria."""
    number = score if form == "keyed" else "?"
    own: dict[str, Any] = {"score": number}
    if criteria:
        own = {"criteria": dict.fromkeys(criteria, number)}
    entry = {"explanation": "Fine.", **own}
    if form == "keyed":
        return json.dumps({"scores": dict.fromkeys(LABELS, entry)})
    entries = [{"trajectory_id": label, **entry} for label in LABELS]
    return json.dumps({"scores": entries}).replace('"?"', score)


@pytest.mark.parametrize("criteria", [{}, CRITERIA], ids=["score", "criteria"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("accepts", [xgrammar, llguidance, outlines_core])
def test_scores_that_an_engine_allows(
    accepts: Accepts, form: Form, criteria: Mapping[str, Criterion]
) -> None:
    """Each engine lets a judge write each score as people write it, and the parser reads that score."""
    request = Request("", "", LABELS, criteria=criteria)
    parameter = response_format(form, request)
    assert parameter is not None
    schema = parameter["json_schema"]["schema"]
    answers = {score: answer(form, score, criteria) for score in SCORES}
    forbidden = [
        score for score, text in answers.items() if not accepts(schema, text)
    ]
    assert forbidden == []
    for score, text in answers.items():
        entries = parse(text, LABELS, criteria).entries
        assert {*chain(*(own for own, _ in entries.values()))} == {float(score)}


@pytest.mark.parametrize("criteria", [{}, CRITERIA], ids=["score", "criteria"])
@pytest.mark.parametrize("accepts", [xgrammar, llguidance, outlines_core])
def test_answers_that_an_engine_forbids(
    accepts: Accepts, criteria: Mapping[str, Criterion]
) -> None:
    """With a keyed schema no engine lets a judge leave out an id, add one, or leave the range."""
    request = Request("", "", LABELS, criteria=criteria)
    parameter = response_format("keyed", request)
    assert parameter is not None
    schema = parameter["json_schema"]["schema"]
    fine = answer("keyed", "0.5", criteria)
    assert accepts(schema, fine)
    assert not accepts(schema, fine.replace("0.5", "1.2"))
    assert not accepts(schema, fine.replace(LABELS[1], "zzzz"))
    for name in criteria:
        assert not accepts(schema, fine.replace(name, "zzzz"))
    short = json.loads(fine)
    del short["scores"][LABELS[1]]
    assert not accepts(schema, json.dumps(short))
