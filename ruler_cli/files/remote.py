"""s3://, gs://, hf:// and every other address that fsspec opens: objects are read in blocks, and listed.

No object is downloaded whole.
"""

from __future__ import annotations

import io
import re
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.files.error_map import access_denied, reading

BLOCK = 2 << 20
"""Bytes of one request."""
CACHED_BLOCKS = 32
"""Blocks of one file that stay in memory: a Parquet file is read at as many offsets as it has columns."""
BUCKET_SCHEMES = frozenset(
    {"s3", "s3a", "gs", "gcs", "hf", "az", "abfs", "abfss", "adl"}
)
"""Schemes whose addresses hold a bucket where others hold a host."""
_GLOB = re.compile(r"[*?[]")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub",
             "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}  # fmt: skip


class RemoteStore:
    """The file system of fsspec that an address names, and the path in it."""

    def __init__(self, address: str, public: str) -> None:
        """Open the file system; UsageError if no package opens it. `public` is the address to print."""
        self.public, self._address = public, address
        scheme, _, rest = address.partition("://")
        scheme, host = scheme.lower(), rest.partition("/")[0]
        if scheme in BUCKET_SCHEMES and (
            ":" in host or ("@" in host and scheme.startswith(("s3", "g")))
        ):
            raise UsageError(
                "holds a key, which other users of this machine can see",
                "give it in the environment or the provider's configuration",
                place=public,
            )
        with reading(public):
            try:
                from fsspec.core import url_to_fs

                self.system, self.path = url_to_fs(address)
            except ImportError:
                package = _PACKAGES.get(scheme, "fsspec")
                problem = f"{scheme}:// needs the package {package}"
                remedy = f"install it with: pip install {package}"
                raise UsageError(problem, remedy, place=public) from None
            except ValueError:
                problem = f"fsspec knows no addresses of {scheme}://"
                raise UsageError(problem, "check the address", place=public) from None

    def open(self, cached_blocks: int = CACHED_BLOCKS) -> io.BufferedReader[Any]:
        """Open the object for reading, seekable; it fetches blocks on demand and caches `cached_blocks`.

        UsageError if it does not exist or cannot be read; later `read` may raise it too.
        """
        cache: dict[str, Any] = {
            "cache_type": "blockcache",
            "cache_options": {"maxblocks": cached_blocks},
        }
        with reading(self.public):
            if self.system.info(self.path).get("type") == "directory":
                raise UsageError("is a directory", "name a file", place=self.public)
            file = self.system.open(self.path, "rb", block_size=BLOCK, **cache)
        if not file.seekable():
            file.close()
            problem = "this storage does not serve parts of a file"
            raise UsageError(problem, "download the file", place=self.public)
        return io.BufferedReader(file, 1 << 20)

    def expand(self) -> list[str]:
        """Return the addresses that a pattern or a directory stands for, in order; an object is one address.

        A directory stands for the files directly in it, without the notes of programs.
        """
        with reading(self.public):
            try:
                if _GLOB.search(self.path):
                    entries = self.system.glob(self.path, detail=True).values()
                elif self._is_directory():
                    entries = self.system.ls(self.path, detail=True)
                else:
                    return [self._address]
                names = [
                    str(entry["name"]) for entry in entries if entry["type"] == "file"
                ]
            except ValueError:
                remedy = "write `**` between slashes, alone"
                raise UsageError("is no pattern", remedy, place=self.public) from None
            listed = sorted(name for name in names if not _is_note(name))
            whole, path = self._address.rstrip("/"), self.path.rstrip("/")
            if whole.endswith(path):  # a host may stand before the path
                listed = [whole.removesuffix(path) + name for name in listed]
            else:
                listed = [self.system.unstrip_protocol(name) for name in listed]
        if not listed:
            raise UsageError("no such file", "check the address", place=self.public)
        return listed

    def _is_directory(self) -> bool:
        """Tell if the path is a directory; False if this user may not list it, but perhaps read an object."""
        try:
            return bool(self.system.isdir(self.path))
        except Exception as error:
            if access_denied(error):
                return False
            raise


def _is_note(name: str) -> bool:
    """Tell if a program left an object as a note (`_SUCCESS`)."""
    return name.rpartition("/")[2].startswith((".", "_"))
