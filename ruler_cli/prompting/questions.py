"""The questions about a part of a group → requests to a judge whose answers are read by probability.

The task and the rollouts stand first, so that an engine's prefix cache holds them from one question to the next. An
endpoint of chat completions gets a request for each question, which ends with it; a decision model gets one request
with all questions, typed and apart from the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ruler_cli.prompting import templates
from ruler_cli.prompting.marks import placed, tokens_of_pictures
from ruler_cli.prompting.prompt import (
    LETTERS,
    PromptLayout,
    RequestPart,
    common_blocks,
    labels_of,
    rollout_blocks,
    write_prompt,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Criterion, Question, Request, Rubric, readable_text

MOST_QUESTIONS = 64
"""Questions of one request to a decision model whose limit is not known: as many as vLLM and Cloudflare take."""


class Subject(NamedTuple):
    """The subject of a question: a distinct rollout, and a criterion by its number if there are any."""

    rollout: int
    number: int = 0
    criterion: Criterion | None = None

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the criterion, as text that can be sent."""
        levels = self.criterion.levels if self.criterion else ()
        return tuple(map(readable_text, levels))


Asked = tuple[Request, Sequence[Subject]]
"""A request, and what its questions are about, in their order."""


def requests_about(
    layout: PromptLayout, ask: AskSettings, part: RequestPart
) -> Iterator[Request]:
    """Yield the requests about a part of a group: those that no reply has led to."""
    if ask.by_probability:
        subjects = subjects_of(layout, part)
        for request, _ in question_requests(layout, ask, part, subjects):
            yield request
        return
    yield write_prompt(layout, ask, part)


def subjects_of(layout: PromptLayout, part: RequestPart) -> list[Subject]:
    """The subjects of the questions about a part: each rollout in the order shown, by each criterion."""
    rubric = layout.rubric
    if not isinstance(rubric, Rubric):
        return list(map(Subject, part.distinct))
    return [
        Subject(rollout, number, criterion)
        for rollout in part.distinct
        for number, criterion in enumerate(rubric.criteria)
    ]


def question_requests(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    subjects: Sequence[Subject],
    attempt: int = 0,
) -> Iterator[Asked]:
    """Yield the requests with the questions about these subjects.

    Another `attempt` shows the rollouts by other labels; where there are none, it counts as another pass.
    """
    blocks = common_blocks(layout, reference_first=ask.typed)
    if ask.ask == "each":
        (at,) = part.distinct
        labels = {"rollout": at}
        blocks.append(f"<trajectory>\n{layout.distinct[at]}\n</trajectory>")
    else:
        key = layout.key(ask.seed, part.pass_index, attempt)
        labels = labels_of(layout, key, part.distinct)
        blocks += rollout_blocks(layout, labels)
    names = {rollout: label for label, rollout in labels.items()}
    request = replace(_request(layout, ask, part, blocks), shown=labels)
    if ask.ask == "each":
        request = replace(request, pass_index=part.pass_index + attempt)
    most = ask.most_questions or MOST_QUESTIONS
    for start in range(0, len(subjects), most if ask.typed else 1):
        if ask.typed:
            batch = subjects[start : start + most]
            typed = [
                _typed(names[subject.rollout], subject, ask)
                for subject in batch
            ]
            yield replace(request, questions=tuple(typed)), batch
            continue
        subject = subjects[start]
        worded = _worded(names[subject.rollout], subject, ask)
        asked = templates.in_a_word(worded, subject.levels)
        yield (
            replace(
                request,
                words=tuple(templates.words_of(subject.levels)),
                user=f"{request.user}\n{asked}",
                shared=len(request.user) if len(subjects) > 1 else 0,
            ),
            [subject],
        )


def _worded(label: str, subject: Subject, ask: AskSettings) -> str:
    among = "" if ask.ask == "each" else label
    return templates.question(ask.question, among, subject.criterion)


def _typed(label: str, subject: Subject, ask: AskSettings) -> Question:
    """A typed question; its name has letters alone, since some gateways sort or refuse other names."""
    name = label
    if subject.criterion:
        size = len(LETTERS)
        digits = [subject.number // size**power % size for power in (2, 1, 0)]
        name += "".join(map(LETTERS.__getitem__, digits))
    return Question(name, _worded(label, subject, ask), subject.levels)


def _request(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    blocks: Sequence[str],
) -> Request:
    """The request without its questions."""
    standards = ""
    if (
        isinstance(layout.rubric, str)
        and layout.rubric != templates.DEFAULT_RUBRIC
    ):
        standards = layout.rubric
    user, pictures = placed("\n".join(blocks), layout.pictures)
    return Request(
        templates.question_system(
            standards,
            alone=ask.ask == "each",
            ended=layout.ended(part.distinct),
            pictures=bool(layout.pictures),
        ),
        user,
        (),
        max_output_tokens=1,
        pass_index=part.pass_index,
        fitted=True,
        pictures=pictures,
        picture_tokens=tokens_of_pictures(pictures, ask),
    )
