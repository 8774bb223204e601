"""Pairs of `ruler select --as pairs`, as `datasets` loads them and TRL's `DPOTrainer` prepares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.choice import Choice
from ruler_cli.results.pairs import PairMaker
from ruler_cli.results.select import select
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.conftest import read
from tests.frameworks.tiny_model import tiny_model, tiny_tokenizer
from tests.results.select_values import dump, trajectory

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

TOOLS = [
    {
        "type": "function",
        "function": {"name": "cancel", "parameters": {"type": "object"}},
    }
]
CHAT = (
    "{% for tool in tools or [] %}<tool>{{ tool.function.name }}</tool>{% endfor %}"
    "{% for message in messages %}<{{ message.role }}>{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }})"
    "{% endfor %}</{{ message.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
"""A template that, as most do, writes the arguments of calls as JSON."""


def group(name: str, *, calls: bool) -> dict[str, Any]:
    """A scored group of two rollouts; the better one may call a tool, each time with other arguments."""
    better, worse = trajectory(0.9), trajectory(0.1)
    asked = {"role": "user", "content": f"Cancel order {name}."}
    better["messages"] = [
        asked,
        {"role": "assistant", "content": f"Done: {name}"},
    ]
    worse["messages"] = [
        asked,
        {"role": "assistant", "content": "I can not. \u2028"},
    ]
    if calls:
        arguments = json.dumps({f"order_{name}": name, "again": None})
        function = {"name": "cancel", "arguments": arguments}
        call = {"id": "c1", "type": "function", "function": function}
        better["messages"][1:1] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ]
    return {
        "group_id": name,
        "trajectories": [worse, better],
        "tools": TOOLS if calls else None,
        "ruler": {"status": "scored"},
    }


def pairs(tmp_path: Path, name: str, *, calls: bool) -> Path:
    """Write the pairs of some groups, of which every second one has calls if asked."""
    groups = [group(str(i), calls=calls and i % 2 == 0) for i in range(6)]
    source = dump(tmp_path / "scored.jsonl", groups)
    maker = PairMaker(0.2, table=name.endswith(".parquet"))
    select(
        InputSettings(str(source)),
        str(tmp_path / name),
        open_input,
        Choice(),
        maker,
        on_problem=lambda _: None,
    )
    assert maker.pairs == len(groups)
    return tmp_path / name


def loaded(path: Path, tmp_path: Path) -> Any:
    """Load a file as data sets are loaded."""
    kind = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(
        kind,
        data_files=str(path),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )


def trained(dataset: Any, tmp_path: Path) -> Any:
    """Train for a step on pairs; return the trainer."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT
    trainer = trl.DPOTrainer(
        model=tiny_model(len(tokenizer)),
        ref_model=tiny_model(len(tokenizer)),
        args=trl.DPOConfig(
            output_dir=str(tmp_path / "trained"),
            per_device_train_batch_size=2,
            max_steps=1,
            max_length=None,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


def texts(trainer: Any) -> list[tuple[str, str, str]]:
    """Return the prompt, the chosen and the rejected text that the trainer made of each pair."""
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    decode = trainer.processing_class.decode
    return [
        (decode(row[names[0]]), decode(row[names[1]]), decode(row[names[2]]))
        for row in trainer.train_dataset
    ]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json", "pairs.parquet"])
def test_conversations(name: str, tmp_path: Path) -> None:
    """Messages are loaded as they were written, and a trainer renders prompt, chosen and rejected of each."""
    path = pairs(tmp_path, name, calls=False)
    dataset = loaded(path, tmp_path)
    assert [row["chosen"] for row in dataset] == [
        [{"role": "assistant", "content": f"Done: {i}"}] for i in range(6)
    ]
    assert texts(trained(dataset, tmp_path)) == [
        (
            f"<user>Cancel order {i}.</user><assistant>",
            f"Done: {i}</assistant>",
            "I can not. \u2028</assistant>",
        )
        for i in range(6)
    ]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json"])
def test_calls(name: str, tmp_path: Path) -> None:
    """Calls come with the arguments that each had and no others, and tools with their own pairs only."""
    path = pairs(tmp_path, name, calls=True)
    dataset = loaded(path, tmp_path)
    written = read(path) if name.endswith("l") else json.loads(path.read_text())
    assert [row["chosen"] for row in dataset] == [
        row["chosen"] for row in written
    ]
    prompt, chosen, _ = texts(trained(dataset, tmp_path))[2]
    assert (
        prompt == "<tool>cancel</tool><user>Cancel order 2.</user><assistant>"
    )
    call = 'cancel({"order_2": "2", "again": null})'
    assert (
        chosen
        == f"{call}</assistant><tool>ok</tool><assistant>Done: 2</assistant>"
    )
    assert "<tool>" not in texts(trained(dataset, tmp_path))[1][0]
