"""Ledgers of earlier versions: their keys still work."""

from __future__ import annotations

import json
import sys
from hashlib import blake2b
from pathlib import Path

from tests.command import run_here
from tests.conftest import ROOT

DATA = Path(__file__).parent.parent / "data"
SAMPLES = ROOT / "samples"
KEYS = DATA / "request_keys.json"


def request_keys(folder: Path) -> dict[str, str]:
    """Return, by sample, a digest of the keys of all requests that two passes over it take."""
    digests = {}
    for sample in sorted(
        [*SAMPLES.glob("*.jsonl"), *(SAMPLES / "formats").iterdir()]
    ):
        if ".scored." in sample.name:
            continue
        ask = ("-m", "openai/gpt-4o-mini", "--passes", "2", "--ledger", "none")
        done = run_here(
            ["batch", "export", str(sample), "-", *ask], "", folder, {}
        )
        keys = [
            json.loads(line)["custom_id"] for line in done.stdout.splitlines()
        ]
        digests[sample.name] = blake2b(
            " ".join(keys).encode(), digest_size=8
        ).hexdigest()
    return digests


def test_keys_of_requests(tmp_path: Path) -> None:
    """No sample's requests have another key than before: else their replies would be paid for again.

    If a format has to read a dump in another way, `python -m tests.ledger.test_old_ledgers` writes them anew.
    """
    assert request_keys(tmp_path) == json.loads(KEYS.read_text())


if __name__ == "__main__":
    KEYS.write_text(json.dumps(request_keys(Path.cwd()), indent=1) + "\n")
    sys.stderr.write(f"{KEYS.relative_to(ROOT)}: written\n")
