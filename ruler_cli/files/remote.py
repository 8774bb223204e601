"""s3://, gs://, hf:// and every other address that fsspec opens: objects are read in blocks, listed, written.

No object is downloaded whole. Object stores (S3, Cloud Storage, the Hugging Face hub) make an object visible
when its upload is completed, so that waits for `commit`. Any other file system gets NAME.partial, which
`commit` renames. A process that is killed leaves at most parts of an upload, which the store's own rules
remove.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import DENIED, explain, reading
from ruler_cli.files.output import PassThrough, compressed

BLOCK = 2 << 20
"""Bytes of one request."""
_CACHED = 32
"""Blocks that stay in memory: a Parquet file is read at as many offsets as it has columns."""
_PART = 32 << 20
"""Bytes of one part of an upload; S3 takes 10,000, which is 320 GB."""
_HELD_BACK = frozenset({"s3", "s3a", "gs", "gcs"})
"""Stores whose uploads can be completed or given up after all bytes are sent."""
_GLOB = re.compile(r"[*?[]")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub",
             "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}  # fmt: skip


class RemoteStore:
    """The file system of fsspec that an address names, and the path in it."""

    def __init__(self, address: str, public: str) -> None:
        """Open the file system; UsageError if no package opens it. `public` is the address to print."""
        self.public = public
        self._address = address
        with reading(public):
            try:
                from fsspec.core import url_to_fs

                self.system, self.path = url_to_fs(address)
            except ImportError:
                scheme = public.partition("://")[0]
                package = _PACKAGES.get(scheme, "fsspec")
                raise UsageError(
                    f"{scheme}:// needs the package {package}",
                    f"install it with: pip install {package}",
                    place=public,
                ) from None
            except ValueError:
                raise UsageError(
                    "fsspec knows no addresses of this kind",
                    "check the address",
                    place=public,
                ) from None

    def open(self) -> io.BufferedReader[Any]:
        """Open the object for reading, seekable; it fetches blocks on demand and caches some.

        UsageError if it does not exist or cannot be read; later `read` may raise it too.
        """
        with reading(self.public):
            file: Any = self.system.open(
                self.path,
                "rb",
                block_size=BLOCK,
                cache_type="blockcache",
                cache_options={"maxblocks": _CACHED},
            )
        if not file.seekable():
            file.close()
            raise UsageError(
                "this storage does not serve parts of a file",
                "download the file",
                place=self.public,
            )
        return io.BufferedReader(file, 1 << 20)

    def expand(self) -> list[str]:
        """Return the addresses that a pattern or a directory stands for, in order; an object is one address.

        A directory stands for the files directly in it, without the notes of programs.
        """
        if self._address.lower().startswith(("http://", "https://")):
            return [self._address]  # servers list nothing; `?` begins a query
        with reading(self.public):
            if _GLOB.search(self.path):
                entries = self.system.glob(self.path, detail=True).values()
            elif self.system.info(self.path)["type"] == "directory":
                entries = self.system.ls(self.path, detail=True)
            else:
                return [self._address]
            names = [str(entry["name"]) for entry in entries if entry["type"] == "file"]
            # a name such as _SUCCESS is that of a note
            notes = (".", "_")
            listed = (
                name for name in names if not name.split("/")[-1].startswith(notes)
            )
            whole = self._address.rstrip("/")
            path = self.path.rstrip("/")
            if whole.endswith(path):  # a host may stand before the path
                return [whole.removesuffix(path) + name for name in listed]
            return [self.system.unstrip_protocol(name) for name in listed]


class RemoteFile(PassThrough):
    """A remote file open for writing. `commit` makes it appear; closing it without that discards it."""

    def __init__(self, store: RemoteStore) -> None:
        """Open it; an error if it cannot be written, as far as that shows beforehand.

        The name's ending decides on compression.
        """
        self._system = store.system
        self._path = store.path
        protocols = self._system.protocol
        protocols = {protocols} if isinstance(protocols, str) else set(protocols)
        self._held_back = bool(protocols & _HELD_BACK)
        self._on_close = "hf" in protocols
        at_once = self._held_back or self._on_close
        self._staged = self._path if at_once else f"{self._path}.partial"
        if self._held_back:
            # no bucket, no credentials, no network: known now, and not at the end. A user who may not look
            # at a bucket may be allowed to write to it
            try:
                self._system.info(self._path.partition("/")[0])
            except Exception as error:
                if explain(error)[0] != DENIED:
                    raise
        self.file: Any = self._system.open(
            self._staged, "wb", block_size=_PART, autocommit=not self._held_back
        )
        self._done = False
        self.may_block = True
        self.stream = compressed(store.public, self.file)

    @property
    def replaces(self) -> bool:  # type: ignore[override]  # a stream replaces nothing
        """Tell if there is an object of this name."""
        return bool(self._system.exists(self._path))

    def commit(self) -> None:
        """Send the rest and make the object appear."""
        if self.stream is not self.file:
            self.stream.close()
        self.file.close()
        if self._held_back:
            self.file.commit()
        elif self._staged != self._path:
            self._system.mv(self._staged, self._path)
        self._done = True

    def discard(self) -> None:
        """Give up what was sent, as far as the storage allows; never raises."""
        if self._done:
            return
        self._done = True
        file = self.file
        with contextlib.suppress(Exception):
            if self._on_close:
                file.closed = True  # its own `close` would upload
                file.temp_file.close()
                Path(file.temp_file.name).unlink(missing_ok=True)
            elif self._held_back:
                file.closed = True
                file.discard()
            else:
                file.close()
                self._system.rm_file(self._staged)

    close = discard
