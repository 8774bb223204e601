"""What the frameworks' own writers wrote is recognised, grouped, and read to the last line."""

from __future__ import annotations

from collections import Counter

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import parse
from ruler_cli.formats.detect import detect, formats
from ruler_cli.formats.interface import PROMPT_HASH
from ruler_cli.formats.reader import Reader
from ruler_cli.records import Line
from ruler_cli.settings import InputSettings
from tests.conftest import SHARED
from tests.formats.marking import sample_path

FOLDER = SHARED / "formats"
NEMO_GYM = "agent_ref.name + _ng_task_index, or hash of responses_create_params.input"
EXAMPLES = [
    # file, format, key, size of each group, lines that hold nothing to judge
    ("verl_v1_rollout", "verl (V1)", "uid without its two numbers", [4, 3], 0),
    ("verl_v1_validation", "verl (V1)", "uid without its two numbers", [4, 3], 0),
    ("verl_legacy_balanced", "verl", PROMPT_HASH, [3, 3], 0),
    ("verl_2025_no_gts", "verl", PROMPT_HASH, [2, 2], 0),
    ("verifiers_results", "verifiers results", "example_id", [3, 3], 0),
    ("verifiers_results_independent", "verifiers results", "example_id", [2, 2], 1),
    (
        "verifiers_results_0_1_8",
        "verifiers results",
        "example_id with env_name, task, step, info.env_id",
        [2, 2],
        0,
    ),
    ("prime_rl_train_rollouts_2026_04", "verifiers results", "example_id", [3, 1], 0),
    ("verifiers_v1_traces", "verifiers episodes", "task.key", [3, 3], 1),
    ("verifiers_v0_2_bare_traces", "verifiers 0.2 traces", "hash of task.data", [2, 2], 0),
    ("prime_rl_traces", "prime-rl episodes", "group.id", [3, 3], 0),
    ("nemo_gym_rollouts", "NeMo-Gym rollouts", NEMO_GYM, [3, 3], 0),
    ("nemo_gym_rollouts_failures", "NeMo-Gym rollouts", NEMO_GYM, [1], 0),
    (
        "nemo_gym_example_rollouts_no_index",
        "NeMo-Gym rollouts",
        NEMO_GYM,
        [3, 1],
        0,
    ),
    ("skyrl_eval", "SkyRL evaluations", PROMPT_HASH, [3, 3], 0),
    ("skyrl_eval_token_rewards", "SkyRL evaluations", PROMPT_HASH, [3, 3], 0),
    ("trl_completions_as_jsonl", "TRL completions", PROMPT_HASH, [3, 3], 0),
    ("miles_trajectory", "miles samples", "group_index", [3, 3], 0),
    ("slime_samples_from_pt", "slime samples", "group_index", [3, 3], 0),
    ("slime_rollout_buffer", "slime buffer items", "instance_id", [3, 3], 0),
    ("areal_rollout_task17", "AReaL rollouts", "task_id", [3], 0),
    ("nemo_rl_train_data_step12", "NeMo-RL rollouts", PROMPT_HASH, [3, 3], 0),
    ("nemo_rl_val_data_step10", "NeMo-RL rollouts", PROMPT_HASH, [3, 3], 0),
    ("rllm_episode_hash9f86d081_idgsm8k-0_1", "rLLM episodes", "task_hash with training_step", [1], 0),
]
REFUSED = [
    ("nemo_gym_rollouts_materialized_inputs", "no `response`"),
    ("skyrl_aggregated_results_SKIP", "these are metrics"),
    ("stepwise_supervision_TRAP", "stepwise supervision"),
    ("open_instruct_rollouts_000000", "token ids only"),
]
SAMPLES = {
    "areal": "AReaL rollouts",
    "miles": "miles samples",
    "nemo_gym": "NeMo-Gym rollouts",
    "nemo_rl": "NeMo-RL rollouts",
    "nemo_rl_validation": "NeMo-RL rollouts",
    "prime_rl": "prime-rl episodes",
    "rllm": "rLLM episodes",
    "skyrl": "SkyRL evaluations",
    "slime": "slime samples",
    "slime_buffer": "slime buffer items",
    "trl": "TRL completions",
    "verifiers_episodes": "verifiers episodes",
    "verifiers_results": "verifiers results",
    "verifiers_traces": "verifiers 0.2 traces",
    "verl": "verl",
    "verl_v1": "verl (V1)",
}


def lines(name: str) -> list[Line]:
    """The records of an example; an indented document is one."""
    found = next(FOLDER.glob(f"{name}.json*"), None)
    if found is None:
        pytest.skip(f"{name} is not beside this checkout")
    raw = found.read_bytes()
    raws = [raw] if found.suffix == ".json" else [r for r in raw.split(b"\n") if r]
    return [Line(i, 0, r) for i, r in enumerate(raws, 1)]


def found_in(name: str) -> tuple[Reader, list[Line]]:
    """What reads an example, and its records."""
    records = lines(name)
    return detect(name, records, InputSettings(name)), records


@pytest.mark.parametrize(("name", "form", "key", "sizes", "lost"), EXAMPLES)
def test_recognised(name: str, form: str, key: str, sizes: list[int], lost: int) -> None:
    """Each is known by its keys, with the group key and the groups that it was written with."""
    reader, records = found_in(name)
    assert (reader.format.name, reader.key) == (form, key)
    groups: Counter[str | None] = Counter()
    failed = 0
    for line in records:
        try:
            (record,) = reader.read(line)
        except UnreadableError:
            failed += 1
            continue
        groups[record.key] += len(record.rollouts)
        assert all(r.fault is None and len(r.messages) > 1 for r in record.rollouts)
    assert (sorted(groups.values(), reverse=True), failed) == (sizes, lost)


@pytest.mark.parametrize(("name", "says"), REFUSED)
def test_refused(name: str, says: str) -> None:
    """What holds no rollouts is refused with a reason."""
    with pytest.raises(UsageError, match=says):
        found_in(name)


@pytest.mark.parametrize("name", [name for name, *_ in EXAMPLES])
def test_one_format_only(name: str) -> None:
    """No two formats of the same rank know a record, and none of a named framework another's."""
    reader, records = found_in(name)
    for line in records:
        record = parse(line.raw)
        named = {f.name for f in formats() if f.rank > 0 and f.matches(record)}
        assert named == {reader.format.name}


@pytest.mark.parametrize(("name", "form"), SAMPLES.items())
def test_samples(name: str, form: str) -> None:
    """Each sample is small and of its format."""
    raws = sample_path(name).read_bytes().split(b"\n")
    found = [Line(i, 0, raw) for i, raw in enumerate(raws, 1) if raw]
    assert detect(name, found, InputSettings(name)).format.name == form
    assert sample_path(name).stat().st_size < 4096
