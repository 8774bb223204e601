"""The workflow of docs/agree.md, run step by step as GitHub does."""

from __future__ import annotations

import re

from ruler_cli.types import words_of
from tests.docs.examples import run, workspace
from tests.docs.pages import read

_STEP = re.compile(r"^      - run: (.+)$", re.MULTILINE)


def test_workflow() -> None:
    """Every step of the page ends with 0 with a judge and a bound of the tests, and a higher bound ends the job."""
    (workflow,) = re.findall(
        r"```yaml\n(.*?)```", read("docs/agree.md"), re.DOTALL
    )
    install, score, agree = _STEP.findall(workflow)
    # here `ruler` is this checkout
    assert install == "pip install ./tools/ruler"
    judge = "openai/o3 --ledger ci/ledger.sqlite --cached-only"
    steps = (
        score.replace(judge, "the-judge"),
        agree.replace("0.7", "0.55"),
        agree,
    )
    shell = words_of("bash --noprofile --norc -eo pipefail -c")
    with workspace() as (folder, environment):
        samples = folder / "samples"
        (samples / "simulated.jsonl").rename(folder / "dump.jsonl")
        (samples / "labels/people.jsonl").rename(folder / "labels.jsonl")
        done = [run([*shell, step], folder, environment) for step in steps]
    assert [each.returncode for each in done] == [0, 0, 1], done
    assert "failed: the interval" in done[-1].stdout
