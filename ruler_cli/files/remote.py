"""s3://, gs://, hf:// and every other address that fsspec opens: objects are read in blocks, and listed.

No object is downloaded whole. Errors are sentences of our own: those of the storage's libraries quote the
address, with user, password and query.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ruler_cli.errors import RulerError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
        with storage_errors(public):
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
        with storage_errors(self.public):
            if self.system.info(self.path).get("type") == "directory":
                raise UsageError("is a directory", "name a file", place=self.public)
            file = self.system.open(self.path, "rb", block_size=BLOCK, **cache)
        if not file.seekable():
            file.close()
            problem = "this storage does not serve parts of a file"
            raise UsageError(problem, "download the file", place=self.public)
        return io.BufferedReader(_RemoteReader(self.public, file), 1 << 20)

    def expand(self) -> list[str]:
        """Return the addresses that a pattern or a directory stands for, in order; an object is one address.

        A directory stands for the files directly in it. Files with names that begin with `.` or `_` are left
        out: programs leave them as notes (`_SUCCESS`).
        """
        with storage_errors(self.public):
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
            listed = sorted(
                name
                for name in names
                if not name.rpartition("/")[2].startswith((".", "_"))
            )
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


@contextmanager
def storage_errors(
    place: str,
    before: str = "",
    kind: type[RulerError] = UsageError,
    then: str = "",
) -> Iterator[None]:
    """Turn any error of a storage into one of ours; `before` begins the problem, `then` ends the remedy."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        problem, remedy = explain(error)
        raise kind(before + problem, remedy + then, place=place) from None


class _RemoteReader(io.RawIOBase):
    """A file of fsspec that raises UsageError."""

    def __init__(self, public: str, file: Any) -> None:
        self._public, self._file = public, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._file.seek(at, whence))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        with storage_errors(self._public):
            data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def explain(error: BaseException) -> tuple[str, str]:
    """Return problem and remedy, without the library's own message, which may quote a key."""
    chain = list(_chain(error))
    kinds = {kind.__name__ for link in chain for kind in type(link).__mro__}
    status = next(filter(None, map(_status, chain)), 0)
    if kinds & _NO_KEY:
        return (
            "no credentials found",
            "log in with the provider's tool, or set its variables",
        )
    if access_denied(error):
        return "access denied", "check the credentials and their permissions"
    if status == 404 or (
        not status and "FileNotFoundError" in kinds and not kinds & _UNREACHABLE
    ):
        return "no such object", "check the address"
    if status >= 300:
        return f"the storage answered with status {status}", "try again later"
    if kinds & _UNREACHABLE:
        return "the storage cannot be reached", "check the network and the endpoint"
    if "NotImplementedError" in kinds:
        return "this storage is read-only", "name a file of this machine"
    known = isinstance(error, OSError) and error.errno and error.strerror
    reason = known or type(error).__name__
    return f"failed ({reason})", "try again, or copy the file to this machine"


def access_denied(error: BaseException) -> bool:
    """Tell if the storage refuses the user's access."""
    return any(
        isinstance(link, PermissionError) or _status(link) in (401, 403)
        for link in _chain(error)
    )


_NO_KEY = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
    "DefaultCredentialsError", "RefreshError", "LocalTokenNotFoundError",
}  # fmt: skip
_UNREACHABLE = {
    "ClientConnectionError", "ConnectionError", "ConnectError", "TimeoutError", "HTTPClientError",
    "FSTimeoutError", "gaierror", "TransportError", "TimeoutException",
}  # fmt: skip


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes: a file system may report a lost connection as a missing file."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int:
    """Return the HTTP status of an error, under any of the names that libraries use; 0 for none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code")):
        code = getattr(holder, name, None)
        if str(code).isdigit():
            return int(str(code))
    return 0
