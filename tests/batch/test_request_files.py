"""Names of request files."""

from __future__ import annotations

from pathlib import Path

from ruler_cli.runs.batch.requests import names_for


def test_panel_names() -> None:
    """Each judge of a panel has files under its own plain and distinct name."""
    assert names_for("a/r.jsonl.gz", ["openai/o3"]) == ["a/r.jsonl.gz"]
    assert names_for("a/r.jsonl.gz", ["openai/o3", "hosted_vllm/Qwen/Qwen3-8B"]) == [
        "a/r.1-openai-o3.jsonl.gz",
        "a/r.2-hosted_vllm-Qwen-Qwen3-8B.jsonl.gz",
    ]
    odd = [
        "../../etc/passwd",
        "a b:c?*|",
        ".",
        "",
        "é" * 300,
        "x" * 300,
        "-rf",
        "\udcff",
        "con\n\x1b[2J",
    ]
    result = [
        Path(name)
        for name in names_for("a/r.jsonl", odd + [judge.upper() for judge in odd])
    ]
    assert {str(path.parent) for path in result} == {"a"}
    assert len({path.name.lower() for path in result}) == len(result)
    assert all(path.name.startswith("r.") and path.name.isascii() for path in result)
    assert all(path.name.isprintable() and len(path.name) < 120 for path in result)
