"""Every format: an example is scored with `simulated`, and its framework reads the output."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest

from ruler_cli.errors import UnreadableError, UsageError, WrongShapeError
from ruler_cli.files.parse import parse
from ruler_cli.formats.format import Format
from ruler_cli.formats.table import FORMATS, fits
from ruler_cli.runs.file import score
from ruler_cli.runs.scorer import Scorer
from ruler_cli.scoring.rewards import number
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from tests.conftest import ROOT, SHARED
from tests.formats.changes import (
    FAILED,
    SCORED,
    changed,
    keyed,
    raws,
    same_twice,
    written,
)
from tests.formats.frameworks import READERS
from tests.values import line, reader

SAMPLES = Path(__file__).parent.parent.parent / "samples"
EXAMPLES = {
    p.stem: p for p in sorted(SAMPLES.rglob("*.jsonl")) if p.stem in READERS
}
each_example = pytest.mark.parametrize("name", EXAMPLES)
READ = ROOT / "tests/data/examples_read.json"
LAYOUTS = (
    *(
        "groups",
        "trajectories",
        "art_rows",
        "atropos",
        "inspect",
        "live_code_bench",
        "lm_eval",
        "ms_swift",
    ),
    *(
        "preference",
        "pydantic_evals",
        "rewardbench2",
        "slime",
        "tau2",
        "tau_bench",
        "ultrafeedback",
        "verl",
    ),
)
"""An example of every layout of annotations in a record, and unusual ones."""
each_layout = pytest.mark.parametrize("name", LAYOUTS)
_OURS = re.compile(r"(.*\.)?(ruler|metrics|logs)(\..*)?$")


def scored(
    name: str, folder: Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the records of an example before and after a run, whose output is `out.jsonl` in the folder."""
    out = folder / "out.jsonl"
    out.write_bytes(_output(name))
    return [parse(raw) for raw in raws(EXAMPLES[name])], [
        parse(raw) for raw in raws(out)
    ]


@cache
def _output(name: str) -> bytes:
    """Return the output of an example, which is scored once."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "out.jsonl")
        judge = JudgeSettings("simulated")
        done = anyio.run(
            score,
            ScoreSettings(InputSettings(str(EXAMPLES[name])), str(out), judge),
        )
        assert done.summary.complete, done.summary
        return out.read_bytes()


def annotations_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every annotation of a rollout in a record, in the order of the record."""
    if isinstance(value, dict):
        if value.get("status") == "scored" and "explanation" in value:
            yield value
        for inner in value.values():
            yield from annotations_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from annotations_in(inner)


def test_every_format_has_an_example() -> None:
    """Every format has an example, and every example has a reader."""
    covered = {reader(*raws(path)).format.name for path in EXAMPLES.values()}
    assert {form.name for form in FORMATS} == covered
    assert READERS.keys() == EXAMPLES.keys()


def _payload(layout: Format) -> str | None:
    """Return the member that repeats the trajectory as JSON text, if a layout has one."""
    return layout.payload


def test_each_layout_has_an_example() -> None:
    """The examples of `LAYOUTS` have the layouts of all formats."""

    def kind(name: str) -> tuple[Any, ...]:
        form = reader(*raws(EXAMPLES[name])).format
        layout = form
        return (
            form.shape,
            not layout.reward,
            layout.ruler.count("."),
            _payload(layout) is None,
            layout.listed,
        )

    assert {kind(name) for name in EXAMPLES} == {kind(name) for name in LAYOUTS}


def test_small_examples() -> None:
    """Each example is small, has several groups and is read without an error."""
    for name, path in EXAMPLES.items():
        groups = keyed(*raws(path))
        assert path.stat().st_size <= 4_096 or path.parent == SAMPLES, name
        assert len(groups) > 1, name
        assert all(
            r.error is None for rollouts in groups.values() for r in rollouts
        ), name


def as_read(path: Path) -> dict[str, list[Any]]:
    """Return messages, reward, outcome, tools and histories of each rollout, by group."""
    return {
        str(key): [
            [
                " ".join(str(m.get("role") or m["type"]) for m in r.messages),
                r.messages[-1].get("content")
                or r.messages[-1].get("tool_calls"),
                [r.reward, r.outcome, r.member, r.prompt_length],
                [
                    tool.get("name", tool.get("function", {}).get("name"))
                    for tool in r.tools or ()
                ],
                [len(history) for history in r.histories],
            ]
            for r in rollouts
        ]
        for key, rollouts in keyed(*raws(path)).items()
    }


def test_read(subtests: pytest.Subtests) -> None:
    """Every example has the groups and rollouts that `examples_read.json` records.

    After an intended change, `python -m tests.formats.test_every_format` writes that file anew.
    """
    wanted = json.loads(READ.read_text())
    assert wanted.keys() == EXAMPLES.keys()
    for name, path in EXAMPLES.items():
        with subtests.test(name=name):
            assert as_read(path) == wanted[name]


def test_one_match(subtests: pytest.Subtests) -> None:
    """No record matches two formats of the same rank, unless one of a higher rank does."""
    for path in [*EXAMPLES.values(), *(SHARED / "formats").glob("*.jsonl")]:
        for raw in raws(path):
            ranks = [form.rank for form in FORMATS if fits(form, parse(raw))]
            with subtests.test(path=path.name):
                assert ranks.count(max(ranks, default=0)) <= 1


def test_scores_as_rewards(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The framework reads each score as the reward, and only ruler's fields change."""
    for name in EXAMPLES:
        with subtests.test(name=name):
            _read_back(name, tmp_path)


def _read_back(name: str, tmp_path: Path) -> None:
    """Check one example."""
    before, after = scored(name, tmp_path)
    read, layout = READERS[name], reader(*raws(EXAMPLES[name])).format
    written_paths = [layout.reward] if layout.reward else []
    written_paths += [payload] if (payload := _payload(layout)) else []
    # objects that were made so that `ruler` or the reward can stand in them
    made = [path.rpartition(".")[0] for path in (layout.ruler, layout.reward)]
    for old, new in zip(before, after, strict=True):
        was, now, annotations = read(old), read(new), list(annotations_in(new))
        assert [key for key, _ in was] == [key for key, _ in now]
        assert all(0 <= annotation["score"] <= 1 for annotation in annotations)
        rewards = [float(reward) for _, reward in now if reward is not None]
        assert not (rewards and layout.reward) or rewards == [
            annotation["score"] for annotation in annotations
        ]
        for path in changed(old, new):
            inside = any(f".{named}." in f".{path}." for named in written_paths)
            around = any(
                named and f".{path}".endswith(f".{named}") for named in made
            )
            assert _OURS.fullmatch(path) or inside or around, path


def test_written_twice(subtests: pytest.Subtests) -> None:
    """A record scored twice equals one scored once, also after a failure between."""
    for name in EXAMPLES.keys() - {
        "art_rows"
    }:  # whose annotations stand twice, see `test_art`
        with subtests.test(name=name):
            for raw in raws(EXAMPLES[name])[:4]:
                same_twice(parse(raw))


def test_failed_reward(subtests: pytest.Subtests) -> None:
    """A failed group keeps no reward of another scale, except with `--on-failure keep`."""
    for name, path in EXAMPLES.items():
        record = parse(raws(path)[0])
        layout = reader(*raws(path)).format
        failed, unchanged = (
            written(record, FAILED),
            written(record, FAILED, on_failure="keep"),
        )
        rewards = [
            annotation["independent_reward"] for annotation in _failed(failed)
        ]
        with subtests.test(name=name):
            assert rewards == [
                annotation["independent_reward"]
                for annotation in _failed(unchanged)
            ]
            assert rewards
            if _payload(layout) is None and not layout.elsewhere:
                assert {number(first) for first in rewards} >= {
                    number(reward) for _, reward in READERS[name](unchanged)
                } - {None}


def _failed(value: Any) -> list[dict[str, Any]]:
    """Return every annotation of a failed rollout, in the order of the record."""
    if isinstance(value, list):
        return [annotation for inner in value for annotation in _failed(inner)]
    if not isinstance(value, dict):
        return []
    written_paths = (
        [value]
        if value.get("status") == "failed" and "independent_reward" in value
        else []
    )
    return written_paths + [
        annotation for inner in value.values() for annotation in _failed(inner)
    ]


def test_independent_reward(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Each annotation keeps the framework's reward, and a scored file is read with it."""
    for name in EXAMPLES:
        with subtests.test(name=name):
            _independent_rewards(name, tmp_path)


def _independent_rewards(name: str, tmp_path: Path) -> None:
    """Check one example."""
    before, after = scored(name, tmp_path)
    for old, new in zip(before, after, strict=True):
        was = [reward for _, reward in READERS[name](old)]
        independent_rewards = [
            annotation["independent_reward"]
            for annotation in annotations_in(new)
        ]
        assert [reward is None for reward in was] == [
            first is None for first in independent_rewards
        ]
        same = [
            (r, first)
            for r, first in zip(was, independent_rewards, strict=True)
            if isinstance(first, int | float | str)
        ]
        assert all(first == reward for reward, first in same)
    lines = [json.dumps(record).encode() for record in after]
    rewards = [
        [[number(r.reward) for r in rollouts] for rollouts in groups.values()]
        for groups in (keyed(*before), keyed(*lines))
    ]
    assert rewards[0] == rewards[1]


def test_from_python(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A group that a program gives as records of any format comes back as the command writes them."""

    records = {name: scored(name, tmp_path) for name in EXAMPLES}

    async def main() -> None:
        async with Scorer(
            ScoreSettings(judge=JudgeSettings("simulated"), ledger=None)
        ) as scorer:
            for name, pair in records.items():
                with subtests.test(name=name):
                    await _from_python(name, scorer, *pair)

    anyio.run(main)


async def _from_python(
    name: str, scorer: Scorer, before: list[Any], after: list[Any]
) -> None:
    """Check one example."""
    detected = reader(*raws(EXAMPLES[name]))
    groups: dict[str, list[int]] = {}
    for i, raw in enumerate(raws(EXAMPLES[name])):
        for record in detected.read(line(raw, i + 1)):
            groups.setdefault(str(record.key), []).append(i)
    several = len(groups) > len(before)
    for places in groups.values():
        of_group = [before[i] for i in places]
        alone = detected.format.shape != "trajectory" or (
            detected.format.listed and len(of_group) == 1
        )
        unchanged = json.dumps(of_group)
        if several:
            with pytest.raises(
                WrongShapeError,
                match=r"holds 2 groups .* give each group as a list",
            ):
                await scorer.score(of_group[0])
            continue
        judged: Any = await scorer.score(of_group[0] if alone else of_group)
        assert _timeless(
            [judged.group] if alone else judged.group
        ) == _timeless([after[i] for i in places])
        assert json.dumps(of_group) == unchanged


def _timeless(records: list[Any]) -> Any:
    """Return records without what depends on the time, or on the file that a group stands in."""
    text = re.sub(
        r'"(judged_at|latency_s|key)": ("(?:[^"\\]|\\.)*"|[0-9.e-]+)',
        '"": 0',
        json.dumps(records),
    )
    return json.loads(text)


EXPECTED = {
    # name: format, sizes of the groups, unreadable lines
    "areal_rollout_task17": ("AReaL rollouts", [3], 0),
    "art_exclude_defaults": ("ART groups", [3, 3], 0),
    "art_model_dump": ("ART groups", [3, 3], 0),
    "art_trajectory_groups": ("ART groups", [3, 3], 0),
    "art_trajectory_per_line": ("ART trajectories", [3, 3], 0),
    "atif_trajectories": ("ATIF trajectories", [3, 3], 0),
    "atropos_groups": ("Atropos groups", [3, 3], 0),
    "harbor_traces_export": ("Harbor's exported traces", [3, 3], 0),
    "inspect_samples": ("Inspect samples", [2, 2], 0),
    "lm_eval_samples_gsm8k": ("lm-eval samples", [3, 3], 0),
    "miles_trajectory": ("miles samples", [3, 3], 0),
    "mini_swe_agent.traj.json": ("mini-swe-agent", [1], 0),
    "ms_swift_completions": ("ms-swift steps", [3, 3], 0),
    "nemo_gym_example_rollouts_no_index": ("NeMo-Gym rollouts", [3, 1], 0),
    "nemo_gym_rollouts": ("NeMo-Gym rollouts", [3, 3], 0),
    "nemo_gym_rollouts_failures": ("NeMo-Gym rollouts", [1], 0),
    "nemo_rl_train_data_step12": ("NeMo-RL rollouts", [3, 3], 0),
    "nemo_rl_val_data_step10": ("NeMo-RL rollouts", [3, 3], 0),
    "openhands_output": ("OpenHands outputs", [1, 1], 0),
    "openrlhf_best_of_n": ("prompts with a completion", [3, 3], 0),
    "preference_pairs": ("preference pairs", [2, 2, 2, 2], 0),
    "prime_rl_traces": ("prime-rl episodes", [3, 3], 0),
    "prime_rl_train_rollouts_2026_04": ("verifiers results", [3, 1], 0),
    "prompt_responses_list": ("prompts with a list of responses", [3, 3], 0),
    "rewardbench2": ("RewardBench 2", [4, 4], 0),
    "rllm_episode_hash9f86d081_idgsm8k-0_1.json": ("rLLM episodes", [1], 0),
    "roll_rollout_dump_data.step_5": ("ROLL steps", [3, 3], 0),
    "skyrl_eval": ("SkyRL evaluations", [3, 3], 0),
    "skyrl_eval_token_rewards": ("SkyRL evaluations", [3, 3], 0),
    "slime_rollout_buffer": ("slime buffer items", [3, 3], 0),
    "slime_samples_from_pt": ("slime samples", [3, 3], 0),
    "sweagent_django__django-11099.traj": ("SWE-agent", [1], 0),
    "trl_completions_as_jsonl": ("TRL completions", [3, 3], 0),
    "trl_prompt_completion_reward": ("prompts with a completion", [3, 3], 0),
    "ultrafeedback": ("UltraFeedback", [3, 3], 0),
    "verifiers_results": ("verifiers results", [3, 3], 0),
    "verifiers_results_0_1_8": ("verifiers results", [2, 2], 0),
    "verifiers_results_independent": ("verifiers results", [2, 2], 1),
    "verifiers_v0_2_bare_traces": ("verifiers traces of 0.2", [2, 2], 0),
    "verifiers_v1_traces": ("verifiers episodes", [3, 3], 1),
    "verl_2025_no_gts": ("verl", [2, 2], 0),
    "verl_legacy_balanced": ("verl", [3, 3], 0),
    "verl_v1_rollout": ("verl (V1)", [4, 3], 0),
    "verl_v1_validation": ("verl (V1)", [4, 3], 0),
}
REFUSED = {
    "stepwise_supervision_TRAP": "holds no rollouts",
    "skyrl_aggregated_results_SKIP": "holds no rollouts",
    "open_instruct_rollouts_000000": "holds no rollouts",
    "nemo_gym_rollouts_materialized_inputs": "holds no rollouts",
}


def _shared(name: str) -> list[bytes]:
    """Return the records of a framework's own file; an indented document is one."""
    path = SHARED / "formats" / name
    return (
        [path.read_bytes()]
        if path.suffix in (".json", ".traj")
        else raws(path.with_name(f"{name}.jsonl"))
    )


@pytest.mark.skipif(
    not (SHARED / "formats").exists(),
    reason="the frameworks' own files are not here",
)
def test_files_of_frameworks(subtests: pytest.Subtests) -> None:
    """The frameworks' own files have their format and groups; scores change only the format's paths."""
    for name, (shape, sizes, failed) in EXPECTED.items():
        lines = _shared(name)
        detected = reader(*lines)
        groups: dict[str, int] = {}
        unreadable = 0
        with subtests.test(name=name):
            assert detected.format.name == shape
            for i, raw in enumerate(lines, 1):
                try:
                    records = detected.read(line(raw, i))
                except UnreadableError:
                    unreadable += 1
                    continue
                for record in records:
                    groups[str(record.key)] = groups.get(
                        str(record.key), 0
                    ) + len(record.rollouts)
                    assert all(
                        r.error is None and r.messages for r in record.rollouts
                    )
                _changes_only_its_paths(parse(raw), detected.format)
            assert (sorted(groups.values(), reverse=True), unreadable) == (
                sizes,
                failed,
            )
    for name, message in REFUSED.items():
        with subtests.test(name=name), pytest.raises(UsageError, match=message):
            reader(*_shared(name))


def _changes_only_its_paths(record: Any, layout: Any) -> None:
    """Check that a score changes only the paths that the format names."""
    paths = [named for named in (layout.reward, layout.ruler) if named]
    for path in changed(record, written(record, SCORED)):
        inside = any(
            f".{named}.".startswith(f".{path}.") or f".{named}." in f".{path}."
            for named in paths
        )
        around = any(
            f".{path}".endswith(f".{named.rpartition('.')[0]}")
            for named in paths
        )
        assert _OURS.fullmatch(path) or inside or around, path


if __name__ == "__main__":
    lines = [
        f"{json.dumps(name)}: {json.dumps(as_read(path))}"
        for name, path in EXAMPLES.items()
    ]
    READ.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.stderr.write(f"{READ.relative_to(ROOT)}: written\n")
