"""Bad usage is reported before anything is read, sent or written, with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Ruler, group, write

S = "score in.jsonl out.jsonl -m offline"
R = "score in.jsonl out.jsonl"
P = f"{R} -m openai/a -m openai/b"
USAGE = {
    # files
    f"{S} --set failed=out.jsonl": "INPUT or OUTPUT",
    f"{S} --set failed=in.jsonl": "INPUT or OUTPUT",
    f"{S} --summary out.jsonl": "another file",
    "score in.jsonl - -m offline --summary -": "stdout",
    "score in.jsonl - -m offline --on-failure drop": "--set failed=FILE",
    f"score {'x' * 5000} - -m offline": "File name too long",
    f"score - {'x' * 5000} -m offline": "File name too long",
    f"score - - --set failed={'x' * 300} -m offline": "File name too long",
    # invalid values of options
    f"{S} -c 0": "-c",
    f"{S} -p api_key=sk-123456789": "--api-key-env",
    f"{S} -p api_base=http://h/v1": "--api-base URL",
    f"{S} --price nan,1": "2,8",
    f"{S} --max-failures 101%": "a share, e.g. 5%",
    f"{S} --rubric @empty.txt": "empty",
    f"{S} --set blend=nan": "--set blend",
    f"{S} --group-size 1": "--group-size",
    f"{S} --grouping consecutive": "'consecutive' is not",
    "score in.jsonl out.jsonl -p sloth=1 -m simulated": "slot",
    f"{R} --ledger none --cached-only": "leave out --ledger none",
    f"{S} --cached-only": "judge offline: the ledger keeps none of its replies",
    # former options, and settings that are no options
    f"{S} --no-cache": "no such option: --no-cache; use --ledger none",
    f"{S} --dry-run": "no such option: --dry-run; use `ruler check INPUT`",
    f"{S} --quiet": "no such option: --quiet; use --progress none, or -q",
    f"{S} --judge-model x": "no such option: --judge-model; use -m NAME",
    "agree in.jsonl --labels-file x": "no such option: --labels-file; use --people",
    f"{P} --fallback": "no such option: --fallback; use --escalate NAME, which scores what the first judge refuses",
    f"{S} --set fallback=true": "no such option: fallback; use --escalate NAME",
    f"{S} --order input": "it is a setting: use --set order=VALUE",
    f"{S} --no-debias": "it is a setting: use --set debias=VALUE",
    f"{S} --set passess=2": "no such option: passess; did you mean passes?",
    f"{S} --set order": "--set: is not NAME=VALUE; write order=VALUE",
    f"{S} --passes 2 --set passes=3": "--passes: is set twice",
    # judges
    f"{R} -m openai/o3": "OPENAI_API_KEY",
    f"{R} -m openai/o3 --api-key-env MY_KEY": "MY_KEY",
    f"{R} -m hosted_vllm/x": "use --api-base URL",
    f"{R} -m mine --set via=http": "--api-base",
    f"{R} -m mine --api-base http://[": "http://",
    f"{R} -m mine --api-base http://h:99999/v1": "http://",
    f"{R} -m mine --api-base http://me:secret@h/v1": "--api-key-env",
    f"{P} -m openai/a": "judges openai/a and openai/a have the same name",
    f"{R} -m a --escalate a --passes 2": "to ask one judge several times, use --passes",
    f"{P} --price 1,2 --price 1,2 --price 1,2": "is not USD per million",
    # contradictory options, with the sentence of every command that has them
    f"{R} --set debias=true --set order=input": "--set debias: needs a random order",
    f"{R} --set adaptive=true": "use --passes 2 or more",
    "check in.jsonl --set adaptive=true": "use --passes 2 or more",
    "batch export in.jsonl out.jsonl --set adaptive=true": "use --passes 2 or more",
    "batch submit in.jsonl --set adaptive=true": "use --passes 2 or more",
    "batch export in.jsonl r.jsonl -m offline": "keeps none of its replies",
    "batch export in.jsonl r.jsonl -m gemini/gemini-2.5-pro": "hosted_vllm/… for an engine of your own",
    f"{R} --passes 2 --set min_passes=3": "--set min_passes: is more than the passes of a group",
    f"{R} --passes 5 --set adaptive=true --set min_passes=3": "--set min_passes: is more than the passes of a group",
    f"{R} --ask each --read text": "writes no scores: it is a decision model, or --ask each applies",
    f"{R} --api systemone --read text": "writes no scores: it is a decision model, or --ask each applies",
    # input and groups
    "check unknown.jsonl": "keys: a, b",
    "check list.json": "item 1 holds no rollouts",
    "check prompt_only.jsonl": "lines can be read",
}


def test_usage(ruler: Ruler, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Bad usage ends with exit code 2, one sentence that names the way out, and no file."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9), group("b", 0.8, 0.2)])
    write(tmp_path / "unknown.jsonl", [{"a": "x", "b": 2}])
    write(tmp_path / "prompt_only.jsonl", [{"messages": []}])
    (tmp_path / "list.json").write_text("[\n{}\n]")
    (tmp_path / "empty.txt").write_text(" ")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for line, message in USAGE.items():
        with subtests.test(line=line[:90]):
            done = ruler(*(word.strip("'") for word in line.split()))
            assert done.returncode == 2, done.stderr
            assert message in done.stderr.replace("\n", " ")
            assert "Traceback" not in done.stderr
            assert {
                path.name: path.read_bytes() for path in tmp_path.iterdir()
            } == before


def test_own_partial(ruler: Ruler, tmp_path: Path) -> None:
    """The partial file of an interrupted run cannot be INPUT of a run that would overwrite it."""
    groups = [group("a", 0.1, 0.9)]
    write(tmp_path / "out.jsonl.partial", groups)
    done = ruler("score", "out.jsonl.partial", "out.jsonl", "-m", "offline")
    assert (done.returncode, "rename it" in done.stderr) == (2, True)


def test_prices(ruler: Ruler, tmp_path: Path) -> None:
    """A price holds for all judges, but for those that have their own in a table of the file and are named by it."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    table = '[judges.b]\nmodel = "x/b"\nprice = [1000, 1000]\n'
    (tmp_path / "ruler.toml").write_text(f"{table}[score]\nprice = [0, 0]\n")
    judges = ("-m", "x/a", "-m", "b", "--escalate", "x/c", "--passes", "2")

    def costs(*options: str) -> list[bool]:
        facts = json.loads(
            ruler("check", "in.jsonl", "--json", *judges, *options).stdout
        )
        return [judge["cost_usd"]["high"] == 0 for judge in facts["judges"]]

    assert costs("--price", "1000,1000") == [False, False, False]
    assert costs() == [True, False, True]
