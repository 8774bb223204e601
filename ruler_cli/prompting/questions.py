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
from ruler_cli.prompting.pictures import placed, tokens_of_pictures
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
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
) -> Iterator[Request]:
    """Yield the requests about a part of a group: those that no reply has led to."""
    if not ask.by_probability:
        yield write_prompt(layout, ask, part)
        return
    subjects = subjects_of(layout, part)
    for request, _ in question_requests(
        layout,
        ask,
        part,
        subjects,
    ):
        yield request


def subjects_of(
    layout: PromptLayout,
    part: RequestPart,
) -> list[Subject]:
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
    alone = ask.ask == "each"
    pass_index = part.pass_index
    blocks = common_blocks(layout, reference_first=ask.typed)
    if alone:
        (at,) = part.distinct
        labels = {"rollout": at}
        blocks.append(f"<trajectory>\n{layout.distinct[at]}\n</trajectory>")
        pass_index += attempt
    else:
        key = layout.key(ask.seed, pass_index, attempt)
        labels = labels_of(layout, key, part.distinct)
        blocks += rollout_blocks(layout, labels)
    standards = layout.rubric
    if standards == templates.DEFAULT_RUBRIC or isinstance(standards, Rubric):
        standards = ""
    user, pictures = placed("\n".join(blocks), layout.pictures)
    request = Request(
        templates.question_system(
            standards,
            alone=alone,
            ended=layout.ended(part.distinct),
            pictures=bool(layout.pictures),
        ),
        user,
        (),
        max_output_tokens=1,
        pass_index=pass_index,
        fitted=True,
        shown=labels,
        pictures=pictures,
        picture_tokens=tokens_of_pictures(pictures, ask),
    )

    names = {rollout: label for label, rollout in labels.items()}
    questions = []
    for subject in subjects:
        name = names[subject.rollout]
        label = "" if alone else name
        text = templates.question(ask.question, label, subject.criterion)
        name += _letters(subject)
        questions.append(Question(name, text, subject.levels))
    if ask.typed:
        most = ask.most_questions or MOST_QUESTIONS
        for start in range(0, len(subjects), most):
            end = start + most
            typed = tuple(questions[start:end])
            yield replace(request, questions=typed), subjects[start:end]
        return
    for subject, question in zip(subjects, questions, strict=True):
        asked = templates.in_a_word(question.text, question.levels)
        worded = replace(
            request,
            words=tuple(templates.words_of(question.levels)),
            user=f"{user}\n{asked}",
            shared=len(user) if len(subjects) > 1 else 0,
        )
        yield worded, [subject]


def _letters(subject: Subject) -> str:
    """Return the number of a criterion in letters, since some gateways sort or refuse names with others."""
    if not subject.criterion:
        return ""
    size = len(LETTERS)
    places = [subject.number // size**power % size for power in (2, 1, 0)]
    return "".join([LETTERS[place] for place in places])
