"""The bare loop to which `check` is compared: parse every line, and nothing else. Argument: the file."""

from __future__ import annotations

import sys

import orjson


def _main(source: str) -> None:
    with open(source, "rb") as file:  # noqa: PTH123 - as people write it
        for line in file:
            orjson.loads(line)


if __name__ == "__main__":
    _main(sys.argv[1])
