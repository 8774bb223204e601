"""A request for a chat completion, or to a decision model → the rollouts to score, and the right answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_ASK = "trajectory_ids to score: "
_LIMITS = ("max_tokens", "max_completion_tokens")
_TRUTH = re.compile(r"truth=([01](?:\.\d+)?)")
_ALONE = re.compile(r"\n<trajectory>\n(.*)\n</trajectory>\n", re.DOTALL)
_ABOUT = re.compile("trajectory `([a-z]+)`")
_CRITERIA = re.compile(
    r"\n<criteria>\n((?:[a-z]+: .*\n)+)</criteria>\n(?!.*<criteria>)", re.DOTALL
)
_CRITERION = re.compile(r"<criterion>\n(.*)\n</criterion>\n")
_LEVEL = re.compile(r'^[A-J]: (".*")$', re.MULTILINE)
_SCALE = " (its value is that of a level: "
_OPENINGS = {
    "shared_messages": re.compile(
        r'\n<shared_messages number="\d+" ids="([^"\n]*)">(?=\n)'
    ),
    "trajectory": re.compile(r'\n<trajectory id="([^"\n]*)">(?=\n)'),
}
Entries = list[dict[str, Any]]


def expected_score(rollout: str) -> float:
    """Score a rollout, the text between its delimiters: by its last `truth=`, else by its hash."""
    if "truth=" in rollout and (result := _TRUTH.findall(rollout)):
        return float(result[-1])
    return int(hashlib.sha256(rollout.encode()).hexdigest()[:8], 16) % 21 / 20


def expected_value(statement: str, rollout: str) -> float:
    """Return how far a statement holds of a rollout: the number behind the last `WORD=`, its last word."""
    word = re.escape(statement.rstrip(".").rpartition(" ")[2])
    found = re.findall(rf"\b{word}=([01](?:\.\d+)?)", rollout)
    return float(found[-1]) if found else 0.0


@dataclass(slots=True)
class Question:
    """One about a rollout: what is right, from 0 to 1, and where the rollout stands, from 1 (first) to -1."""

    name: str
    rollout: str
    right: float
    place: float
    levels: list[str]


@dataclass(slots=True)
class Ask:
    """One parsed request."""

    model: str
    form: str  # response_format.type, or "none"
    keyed: bool  # the schema has a member for each id
    texts: list[str]
    rollouts: dict[str, str]  # of every rollout shown, by label
    entries: Entries  # the right answer
    limits: dict[str, int]  # of completion tokens, by the parameters' names
    prompt_tokens: int = 0
    completion_tokens: int | None = (
        None  # as drawn; None: by the length of the reply
    )
    likely: int = 0  # words whose probabilities are asked for; 0: scores are
    questions: list[Question] = field(default_factory=list)


def read_ask(request: Any) -> Ask:
    """Raise ValueError for a prompt that no judge could answer, so that a test sees it at once."""
    if "questions" in request:
        return _read_decision(request)
    try:
        contents = [message["content"] for message in request["messages"]]
        form = str((request.get("response_format") or {"type": "none"})["type"])
        schema = (request.get("response_format") or {}).get("json_schema") or {}
        keyed = (
            schema.get("schema", {})
            .get("properties", {})
            .get("scores", {})
            .get("type")
            == "object"
        )
        model = str(request["model"])
        texts = [
            c if isinstance(c, str) else "".join(p.get("text", "") for p in c)
            for c in contents
        ]
        last = texts[-1].rstrip().rpartition("\n")[2]
        likely = request["top_logprobs"] if request.get("logprobs") else 0
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a chat completion request: {error!r}") from error
    limits = {name: request[name] for name in _LIMITS if name in request}
    if likely:
        rollouts = _read_shown(texts[-1])
        asked = texts[-1].rpartition("\n</trajectory>\n")[2]
        levels = [orjson.loads(level) for level in _LEVEL.findall(asked)]
        end = "one letter." if levels else "Yes or No."
        if not last.endswith(end) or form != "none":
            raise ValueError("no question about a rollout")
        questions = [_question("", asked, levels, rollouts)]
        return Ask(
            model, form, False, texts, rollouts, [], limits,
            likely=likely, questions=questions,
        )  # fmt: skip
    if not last.startswith(_ASK):
        raise ValueError(f"the last line does not start with {_ASK!r}")
    labels, rollouts = (
        orjson.loads(last.removeprefix(_ASK)),
        _read_rollouts(texts[-1]),
    )
    if not labels or not all(
        isinstance(label, str) and label in rollouts for label in labels
    ):
        raise ValueError(f"asked to score {labels}, shown {list(rollouts)}")
    block = _CRITERIA.search(texts[-1])
    lines = block[1].splitlines() if block else []
    criteria = {
        label: orjson.loads(statement.partition(_SCALE)[0])
        for label, _, statement in (line.partition(": ") for line in lines)
    }
    entries = [_judge(label, rollouts[label], criteria) for label in labels]
    return Ask(model, form, keyed, texts, rollouts, entries, limits)


def _read_decision(request: Any) -> Ask:
    """Read a request of System One, or of OpenAI's Decisions."""
    listed = request["questions"]
    form = "systemone" if isinstance(listed, dict) else "decisions"
    state = request["state" if isinstance(listed, dict) else "input"]
    if not isinstance(state, str):
        state = "".join(part.get("text", "") for part in state[0]["content"])
    rollouts = _read_shown(f"{state}\n")
    rows = [*listed.items()] if isinstance(listed, dict) else []
    rows = rows or [(own["name"], own) for own in listed]
    questions = []
    for name, own in rows:
        levels = [*own.get("criteria", ())]
        levels = levels or [level["label"] for level in own.get("levels", ())]
        kinds = ("score",) if levels else ("noul", "predicate")
        if own["type"] not in kinds or not name.isalpha():
            raise ValueError(f"no question about a rollout: {own}")
        questions.append(_question(name, own["instructions"], levels, rollouts))
    model = str(request["model"])
    return Ask(
        model, form, False, [state], rollouts, [], {}, questions=questions
    )


def _question(
    name: str, text: str, levels: list[str], rollouts: Mapping[str, str]
) -> Question:
    criterion = _CRITERION.search(text)
    about = _ABOUT.findall(text[criterion.end() :] if criterion else text)
    label = about[0] if about else "alone"
    if label not in rollouts:
        raise ValueError(f"asked about {label}, shown {list(rollouts)}")
    rollout = rollouts[label]
    right = expected_score(rollout)
    if criterion:
        right = expected_value(orjson.loads(criterion[1]), rollout)
    last = len(rollouts) - 1
    place = 1 - 2 * [*rollouts].index(label) / last if last else 0.0
    return Question(name, rollout, right, place, levels)


def _read_shown(text: str) -> dict[str, str]:
    """Read the rollout that is shown alone, or each by its label."""
    alone = _ALONE.search(f"\n{text}")
    return {"alone": alone[1]} if alone else _read_rollouts(text)


def _read_rollouts(prompt: str) -> dict[str, str]:
    """Read each rollout by its label, with the shared messages before its own."""
    rollouts: dict[str, str] = {}
    begun: dict[str, str] = {}
    for labels, text in _read_blocks("shared_messages", prompt):
        for label in labels.split():
            begun[label] = _behind(begun, label, text)
    for label, text in _read_blocks("trajectory", prompt):
        if label in rollouts:
            raise ValueError(f"the rollout {label!r} is shown twice")
        rollouts[label] = _behind(begun, label, text)
    return rollouts


def _behind(begun: Mapping[str, str], label: str, text: str) -> str:
    """Return a text behind the messages before it, of which its first line tells."""
    if label not in begun:
        return text
    _, _, rest = text.partition("\n")
    return f"{begun[label]}\n{rest}"


def _read_blocks(kind: str, prompt: str) -> Iterator[tuple[str, str]]:
    """Yield the labels and the text of each block of a kind."""
    text, at = f"\n{prompt}", 0
    opens, closing = f"\n<{kind} ", f"\n</{kind}>\n"
    while (
        at := text.find(opens, at)
    ) >= 0:  # find: a regex is slow on long rollouts
        opening = _OPENINGS[kind].match(text, at)
        if opening is None:
            at += 1
            continue
        at = text.find(closing, opening.end())
        if at < 0:
            raise ValueError(f"the {kind} of {opening[1]!r} is not closed")
        yield opening[1], text[opening.end() + 1 : at]
        at += len(closing) - 1  # the newline also begins the next delimiter


def err(ask: Ask, errors: Mapping[str, float]) -> None:
    """Score as the simulated judge does: by the truth, the noise, the siblings and the position."""
    from benchmarks.simulated import (
        SimulatedModel,
        score,
    )  # most servers need none of it
    from ruler_cli.types import Request

    labels = tuple(entry["trajectory_id"] for entry in ask.entries)
    scores = score(
        SimulatedModel.of(errors),
        Request("\n".join(ask.texts[:-1]), ask.texts[-1], labels),
    )
    ask.entries = [
        {**entry, "score": scores[entry["trajectory_id"]]}
        for entry in ask.entries
    ]


def _judge(
    label: str, rollout: str, criteria: Mapping[str, str]
) -> dict[str, Any]:
    reason = f"judged {label} by its content alone."
    answer: dict[str, Any] = {"score": expected_score(rollout)}
    if criteria:
        values = {
            name: expected_value(statement, rollout)
            for name, statement in criteria.items()
        }
        answer = {"criteria": values}
    return {"trajectory_id": label, "explanation": reason, **answer}
