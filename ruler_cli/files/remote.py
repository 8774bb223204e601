"""s3://, gs://, hf:// and every other address that fsspec opens: objects are read in blocks, and listed.

No object is downloaded whole.
"""

from __future__ import annotations

import io
import re
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import message_of, reading

BLOCK = 2 << 20
"""Bytes of one request."""
_CACHED = 32
"""Blocks that stay in memory: a Parquet file is read at as many offsets as it has columns."""
_GLOB = re.compile(r"[*?[]")


class RemoteStore:
    """The file system of fsspec that an address names, and the path in it."""

    def __init__(
        self,
        address: str,
        public: str,
    ) -> None:
        """Open the file system; UsageError if no package opens it. `public` is the address to print."""
        self.public = public
        self._address = address
        with reading(public):
            try:
                from fsspec.core import url_to_fs

                self.system, self.path = url_to_fs(address)
            except ImportError as error:
                scheme = public.partition("://")[0]
                raise UsageError(
                    f"{scheme}:// needs a package ({message_of(error)})",
                    "install s3fs for s3://, gcsfs for gs://, huggingface_hub for hf://",
                    place=public,
                ) from None
            except ValueError:
                raise UsageError(
                    "fsspec knows no addresses of this kind",
                    "check the address",
                    place=public,
                ) from None

    def open(self) -> io.BufferedReader[Any]:
        """Open the object for reading; it fetches blocks on demand and caches some.

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
            # a name such as _SUCCESS is that of a note
            names = [
                str(entry["name"])
                for entry in entries
                if entry["type"] == "file"
                and entry["name"].rpartition("/")[2][:1] not in "._"
            ]
            whole = self._address.rstrip("/")
            path = self.path.rstrip("/")
            if whole.endswith(path):  # a host may stand before the path
                return [whole.removesuffix(path) + name for name in names]
            return [self.system.unstrip_protocol(name) for name in names]
