"""Exit code and seconds of a run by providers for which nothing is set: `python -m tests.judges.keyless`.

Names of judges may be given; each runs in a process of its own, over three groups, in an empty environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import group, write

_ROOT = Path(__file__).resolve().parents[2]
_JUDGES = (
    "gemini/gemini-2.5-pro", "azure/my-judge", "vertex_ai/gemini-2.5-pro",
    "bedrock/anthropic.claude-3-haiku-20240307-v1:0", "sagemaker/my-endpoint", "databricks/m",
    "replicate/owner/m", "cloudflare/@cf/m", "anthropic/claude-sonnet-4-5", "mistral/m", "cohere/command-r",
    "groq/m", "watsonx/ibm/m", "openrouter/owner/m", "huggingface/owner/m", "github_copilot/m", "snowflake/m",
    "oci/m", "gpt-4o",
)  # fmt: skip


def main(judges: list[str]) -> None:
    """Print a line for each judge."""
    print(f"{'judge':<50} exit  seconds  traceback  retries  says")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "in.jsonl", [group(each, 0.1, 0.9) for each in "abc"])
        environment = {"PATH": os.environ["PATH"], "HOME": name, "PYTHONPATH": str(_ROOT)}
        for judge in judges or _JUDGES:
            began = time.monotonic()
            command = [sys.executable, "-m", "ruler_cli", "score", "in.jsonl", "out.jsonl", "-m", judge]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            told, took = done.stderr, time.monotonic() - began
            signs = (
                f"{'yes' if 'Traceback' in told else 'no':<9}  {'yes' if 'tried again' in told else 'no':<7}"
            )
            says = (told.strip().splitlines() or [""])[-1]
            print(f"{judge:<50} {done.returncode:>4}  {took:>7.1f}  {signs}  {says.partition('; ')[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
