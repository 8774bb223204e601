"""Serve until stdin closes: `python -m tests.batch_server [--conduct JSON] [--judge JSON]`."""

from __future__ import annotations

import argparse
import json
import sys

from tests.batch_server import BatchServer


def main() -> None:
    """Print the addresses, and the bill at the end."""
    parser = argparse.ArgumentParser(description="Both batch APIs on loopback.")
    parser.add_argument(
        "--conduct", type=json.loads, default={}, help="fields of its Conduct, as JSON"
    )
    parser.add_argument(
        "--judge",
        type=json.loads,
        default={},
        help="fields of the judge's Conduct, as JSON",
    )
    options = parser.parse_args()
    with BatchServer(options.judge, **options.conduct) as server:
        print(
            json.dumps({"openai": server.openai, "anthropic": server.anthropic}),
            flush=True,
        )
        sys.stdin.read()
        books = {
            name: getattr(server, name)
            for name in ("created", "billed", "billed_again")
        }
        print(json.dumps(books), flush=True)


if __name__ == "__main__":
    main()
