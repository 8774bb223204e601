"""Judge requests → request files: the lines, their limits, and files that appear all or none.

`requests.jsonl` is one file, or `requests-0001.jsonl`, `requests-0002.jsonl`, … if one file would be too
large for the provider. A panel has files for each judge, named after it: `requests.openai-o3.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Literal, cast

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.atomic import LocalFile, WritableFile, create_file, write_errors
from ruler_cli.files.compression import decompressed, readable
from ruler_cli.files.location import Location
from ruler_cli.judges.chat_completions import chat_body, first_format
from ruler_cli.judges.pricing import Price, listed_batch_price
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.judges.resolve import LOCAL, OPENAI, model_at_endpoint, model_of
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Request

_LINE_START = re.compile(rb'\{"custom_id":"[0-9a-f]{32}","(?:method|params)":')
"""Beginning of a line of a request file."""
_MAX_JUDGE_NAME = 80
"""Longest name of a judge in a file's name, in characters."""
_OVERHEAD = 64
"""Bytes of a batch, which may be one HTTP request, outside of its lines."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one file or batch; None is unlimited."""

    requests: int | None = None
    bytes: int | None = None

    def allow(self, requests: int, size: int) -> bool:
        """Tell if a file may hold so many requests with so many bytes together."""
        few_enough = self.requests is None or requests <= self.requests
        return few_enough and (self.bytes is None or size + _OVERHEAD <= self.bytes)


Target = Literal["openai", "anthropic", "vllm"]
Line = Callable[[bytes, Request], bytes]
"""Make the line of a request file from a key and a request."""

LIMITS: dict[Target, Limits] = {
    "openai": Limits(50_000, 200_000_000),
    "anthropic": Limits(100_000, 256_000_000),
    "vllm": Limits(),
}
"""Limits of each target; a megabyte is 1,000,000 bytes, even if a provider may count 1,048,576."""


def target_of(
    judge: JudgeSettings, target: Literal["auto"] | Target = "auto"
) -> Target:
    """Choose the form of the requests by the judge's name, unless given; UsageError if that is unknown."""
    if target != "auto":
        return target
    provider = judge.model.partition("/")[0]
    if provider in ("hosted_vllm", "vllm", "sglang"):
        return "vllm"
    if judge.api_base or provider == "openai":
        return "openai"
    if provider == "anthropic":
        return "anthropic"
    remedy = Sentence(
        "give {target:openai} where it takes OpenAI's batch files, or {target:vllm} for an engine of your own"
    )
    raise UsageError(
        "its provider's form of a batch is not known",
        remedy,
        place=f"judge {judge.model}",
    )


def batch_target(judge: JudgeSettings) -> Target | None:
    """Return the batch API for a judge; None if there is none that ruler knows."""
    provider = judge.model.partition("/")[0]
    if judge.model in EMBEDDED or (
        provider not in ("openai", "anthropic") and not judge.api_base
    ):
        return None
    return "anthropic" if provider == "anthropic" else "openai"


def request_line(target: Target, judge: JudgeSettings) -> Line:
    """Return a function that makes lines of a request file; their `custom_id` is the key in hex.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError if the form
    cannot hold the judge's name or parameters.
    """
    if target == "anthropic":
        from ruler_cli.judges.litellm import anthropic_params

        params = anthropic_params(judge)
        return lambda key, request: (
            b'{"custom_id":"%s","params":%s}\n' % (key.hex().encode(), params(request))
        )
    model = model_at_endpoint(judge)
    if (
        target == "openai"
        and not judge.api_base
        and model == judge.model
        and "/" in model
    ):
        from ruler_cli.judges.litellm import model_at_provider

        model = model_at_provider(model)  # without the name of the provider
    answer_format = first_format(
        judge, judge.api_base or (OPENAI if target == "openai" else LOCAL)
    )
    return lambda key, request: (
        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        % (key.hex().encode(), chat_body(model, judge.params, request, answer_format))
    )


def batch_price(settings: JudgeSettings) -> Price | None:
    """Return a judge's batch price: as listed, else half of its price for calls; None if unknown."""
    price = model_of(settings).price
    if has_listed_batch_price(settings):
        return listed_batch_price(settings.model)
    return price.halved if price else None


def has_listed_batch_price(settings: JudgeSettings) -> bool:
    """Tell if a judge's batch price is in the price list, and no price of the user replaces it."""
    return (
        not (settings.price or settings.api_base)
        and listed_batch_price(settings.model) is not None
    )


class RequestFiles(AbstractContextManager["RequestFiles"]):
    """Request files of one judge; use as a context manager, `end` when all are written, and `commit`.

    Until then the requests are in NAME.partial, and files of an earlier rendering stay as they are.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        """Open the first file; UsageError if that is impossible, or another kind of file is there."""
        location = Location(name)
        if location.remote:
            raise UsageError("REQUESTS: is an address; give a file of this machine")
        self.name, self._limits, self._earlier = name, limits, list[Path]()
        self._sizes = [(0, 0)]
        """Requests and bytes of each file; the last file is open for writing."""
        self._files = list[WritableFile]()
        try:
            real = location.real
            self._folder, (self._stem, self._ending) = (
                real.parent,
                _split_name(real.name),
            )
            self._is_stream = location.stream or (
                Path(name).exists() and not Path(name).is_file()
            )
            if self._is_stream:
                self._limits = Limits()
            else:
                self._earlier = self._find_earlier()
                if Path(
                    name
                ).is_symlink():  # its target is written, packed by its own name
                    location = Location(str(real))
            self._files.append(create_file(location))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{name}: cannot be written: {getattr(error, 'strerror', error)}"
            ) from None

    def write(self, line: bytes) -> bool:
        """Append a line; False if the line alone exceeds the limits of a file."""
        if not self._limits.allow(1, len(line)):
            return False
        requests, size = self._sizes[-1]
        with write_errors(self.name):
            if not self._limits.allow(requests + 1, size + len(line)):
                self.end()
                self._sizes.append((requests := 0, size := 0))
                # the lock on NAME.partial covers these too
                self._files.append(
                    LocalFile(str(self._path(len(self._sizes))), lock=False)
                )
            self._files[-1].stream.write(line)
        self._sizes[-1] = requests + 1, size + len(line)
        return True

    def end(self) -> None:
        """Flush the last file to disk."""
        with write_errors(self.name):
            self._files[-1].end()

    def commit(self) -> list[tuple[str, int, int]]:
        """Replace the files of an earlier rendering; return (name, requests, bytes) of each new file.

        The earlier files are removed first, so that parts of both never stand side by side.
        """
        if self._is_stream:
            return [(self.name, *self._sizes[0])]
        written = []
        with write_errors(self.name):
            for path in self._earlier:
                path.unlink(missing_ok=True)
            for number, (file, (requests, size)) in enumerate(
                zip(self._files, self._sizes, strict=True), 1
            ):
                path = self._path(None if len(self._sizes) == 1 else number)
                cast(LocalFile, file).partial.replace(path)
                written.append(
                    (str(Path(self.name).with_name(path.name)), requests, size)
                )
        return written

    def __exit__(self, *_: object) -> None:
        """Close and remove the files that were not committed."""
        for file in reversed(self._files):  # the one with the lock last
            with suppress(OSError, ValueError):  # compressors flush when they close
                file.discard()

    def _path(self, number: int | None) -> Path:
        """Return the path of the file, or of one part of it."""
        part = "" if number is None else f"-{number:04d}"
        return self._folder / f"{self._stem}{part}{self._ending}"

    def _find_earlier(self) -> list[Path]:
        """Return the files of an earlier rendering under the same name, in the order to remove them.

        Parts are removed from the highest number down, so that the others are found again after a crash.
        Parts are numbered without gaps: `requests-2024.jsonl` alone is another file. UsageError if a file
        holds no requests.
        """
        parts = takewhile(Path.exists, map(self._path, count(1)))
        earlier = [path for path in (self._path(None), *parts) if path.exists()][::-1]
        for path in earlier:
            if not _is_request_file(path):
                raise UsageError(
                    f"{path}: is in the way and holds no requests of ruler; move it, or write to another file"
                )
        return earlier


def names_for(name: str, judges: Sequence[str]) -> list[str]:
    """Return the file name for each judge: `name` itself for one, else names that differ in more than case.

    UsageError if several judges would share stdout.
    """
    if len(judges) == 1:
        return [name]
    if name == "-":
        raise UsageError(
            f"{name}: a batch holds one model; give a file name, or one judge"
        )
    stem, ending = _split_name(Path(name).name)
    slugs: list[str] = []
    for judge in judges:
        slug = (
            re.sub(r"[^A-Za-z0-9._]+", "-", judge).strip("-.")[-_MAX_JUDGE_NAME:]
            or "judge"
        )
        candidates = (
            slug if number == 1 else f"{slug}.{number}" for number in count(1)
        )
        taken = {each.lower() for each in slugs}
        slugs.append(next(each for each in candidates if each.lower() not in taken))
    return [str(Path(name).with_name(f"{stem}.{slug}{ending}")) for slug in slugs]


def _split_name(name: str) -> tuple[str, str]:
    """Split a file name into stem and endings, between which the part number or the judge's name goes."""
    packed = next((end for end in (".gz", ".zst") if name.endswith(end)), "")
    stem, dot, ending = name.removesuffix(packed).rpartition(".")
    return (stem, dot + ending + packed) if stem else (dot + ending, packed)


def _is_request_file(path: Path) -> bool:
    """Tell if a file is empty or a request file of ruler."""
    with suppress(UsageError), Location(str(path)).open() as raw, readable(str(path)):
        head = decompressed(str(path), raw).read(64)
        return not head or _LINE_START.match(head) is not None
    return False
