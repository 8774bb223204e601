"""The workflow of docs/agree.md, run step by step as GitHub does."""

from __future__ import annotations

import json
import re

from tests.docs.examples import run, workspace
from tests.docs.pages import read

_STEP = re.compile(r"^      - run: (.+)$", re.MULTILINE)


def test_workflow() -> None:
    """Every step of the page ends with 0, the verdict is in the JSON, and a higher bound ends the job."""
    (workflow,) = re.findall(
        r"```yaml\n(.*?)```", read("docs/agree.md"), re.DOTALL
    )
    install, *steps = _STEP.findall(workflow)
    assert (
        install == "pip install ./tools/ruler"
    )  # here `ruler` is this checkout
    assert len(steps) == 3
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    with workspace() as (folder, environment):
        for step in steps:
            done = run([*shell, step], folder, environment)
            assert done.returncode == 0, done.stdout
        gate = json.loads((folder / "agree.json").read_text())["gate"]
        assert gate["passed"]
        bound = f"--at-least {gate['at_least']:g}"
        done = run(
            [*shell, steps[-1].replace(bound, "--at-least 0.9")],
            folder,
            environment,
        )
        assert done.returncode == 1
        assert "failed: the interval" in done.stdout
