"""Examples of dumps, the frameworks' own and those in `samples/formats`: found, grouped, told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.parse import parse
from ruler_cli.formats.detect import formats
from tests.conftest import SHARED
from tests.formats.changes import SAMPLES, SCORED, changed, keyed, raws, same_twice, written
from tests.values import reader

EXAMPLES = SHARED / "formats"
FOUND = {
    # name: format, rollouts in each group, rewards of the first group
    "inspect_samples": ("Inspect samples", [2, 2], ["C", "C"]),
    "inspect_log.json": ("Inspect samples", [2, 2], ["C", "C"]),
    "atif_trajectories": ("ATIF trajectories", [3, 3], [None] * 3),
    "harbor_traces_export": ("Harbor's exported traces", [3, 3], ["1.0", "0.0", "1.0"]),
    "harbor_job": ("Harbor trials", [3, 3], [1.0, 1.0, 0.0]),
    "lm_eval_samples_gsm8k": ("lm-eval samples", [3, 3], [None] * 3),
    "atropos_groups": ("Atropos groups", [3, 3], [1.0, -1.0, 1.0]),
    "ms_swift_completions": ("ms-swift steps", [3, 3], [None] * 3),
    "roll_rollout_dump_data.step_5": ("ROLL steps", [3, 3], [1.0, 0.0, 1.0]),
    "openrlhf_best_of_n": ("prompts with a completion", [3, 3], [1.0, 0.0, 1.0]),
    "trl_prompt_completion_reward": ("prompts with a completion", [3, 3], [1.0, 0.0, 1.0]),
    "prompt_responses_list": ("prompts with a list of responses", [3, 3], [None] * 3),
    "preference_pairs": ("preference pairs", [2, 2, 2, 2], [None, None]),
    "rewardbench2": ("RewardBench 2", [4, 4], [None] * 4),
    "ultrafeedback": ("UltraFeedback", [3, 3], [8.0, 3.0, 8.0]),
    "mini_swe_agent.traj.json": ("mini-swe-agent", [1], [None]),
    "sweagent_django__django-11099.traj": ("SWE-agent", [1], [None]),
    "openhands_output": ("OpenHands outputs", [1, 1], [None]),
}
REFUSED = {
    "stepwise_supervision_TRAP": "stepwise supervision",
    "openai_rft_prompt_only": "no turn of an agent",
    "skyrl_aggregated_results_SKIP": "figures only",
    "open_instruct_rollouts_000000": "token ids only",
    "nemo_gym_rollouts_materialized_inputs": "no `response`",
}


def records(name: str) -> list[Any]:
    """The records of an example, as they come out of whatever holds them."""
    path = EXAMPLES / name if (EXAMPLES / name).exists() else EXAMPLES / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    if path.is_dir():
        return [_trial(trial) for trial in sorted(path.iterdir())]
    if path.suffix in (".json", ".traj"):
        whole = json.loads(path.read_bytes())
        return list(whole.get("samples", [whole]))
    return [parse(raw) for raw in raws(path)]


def _trial(path: Path) -> dict[str, Any]:
    result, trajectory = (
        json.loads((path / n).read_bytes()) for n in ("result.json", "agent/trajectory.json")
    )
    return {"result": result, "trajectory": trajectory}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    """Each is known by its keys, and read into the groups, sizes and rewards that it has."""
    given = records(name)
    shape, sizes, rewards = FOUND[name]
    groups = keyed(*given)
    assert reader(*given).format.name == shape
    assert [len(rollouts) for rollouts in groups.values()] == sizes
    assert [r.reward for r in next(iter(groups.values()))] == rewards
    assert all(r.fault is None and r.messages for rollouts in groups.values() for r in rollouts)


@pytest.mark.parametrize("name", FOUND)
def test_written(name: str) -> None:
    """Of each nothing changes but the places that its format names, and twice is as once."""
    given = records(name)
    layout = reader(*given).format.layout
    for record in given:
        for path in changed(record, written(record, SCORED)):
            assert any(_within(path, place) for place in (layout.reward, layout.ruler, ("ruler",)))
        same_twice(record)


def _within(path: str, place: Any) -> bool:
    """Whether a changed path is a place, an item of it, or what had to be made for it."""
    parts = path.split(".")
    parts = parts[2:] if parts[0] == "completions" and len(parts) > 2 else parts
    wanted = list(map(str, place or ()))
    return parts[: len(wanted)] == wanted[: len(parts)]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What holds nothing to judge is refused with the way out."""
    with pytest.raises(UsageError, match=REFUSED[name]):
        reader(*records(name))


def everything() -> list[Path]:
    """All example files of one record a line."""
    return sorted([*SAMPLES.glob("*.jsonl"), *EXAMPLES.glob("*.jsonl")])


def test_told_apart() -> None:
    """No record is of two named formats, nor of two generic ones where none is named."""
    for path in everything():
        for raw in raws(path):
            found = [form for form in formats() if form.matches(parse(raw))]
            named = [form.name for form in found if form.rank]
            assert len(named) <= 1, path
            assert named or len(found) <= 1, [path, *(form.name for form in found)]


def test_samples() -> None:
    """Each sample is small, has two groups or more, and is read without a fault."""
    for path in SAMPLES.glob("*.jsonl"):
        assert path.stat().st_size <= 4_096, path
        groups = keyed(*raws(path))
        assert len(groups) > 1, path
        assert all(r.fault is None for rollouts in groups.values() for r in rollouts), path
