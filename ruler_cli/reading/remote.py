"""s3://, gs://, hf:// and whatever else fsspec opens: read in blocks, listed, and told in sentences.

Nothing is downloaded whole. The words of the storage's own libraries are not repeated: they quote the
address, with user, password and query.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 2 << 20
"""Bytes of one request."""
KEPT = 32
"""Blocks of one file that stay in memory: a Parquet file is read at as many places as it has columns."""
STORES = frozenset({"s3", "s3a", "gs", "gcs", "hf", "az", "abfs", "abfss", "adl"})
"""Schemes whose addresses hold a bucket where others hold a host."""
_GLOB = re.compile(r"[*?[]")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub",
             "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}  # fmt: skip
_EXTRA = frozenset({"s3fs", "gcsfs", "huggingface_hub", "aiohttp", "fsspec"})


class Store:
    """The file system of fsspec that an address names, and the path in it."""

    def __init__(self, address: str, shown: str) -> None:
        """`shown` is the address as a sentence may show it; UsageError where no package opens it."""
        self.shown, self._address = shown, address
        scheme, _, rest = address.partition("://")
        scheme, host = scheme.lower(), rest.partition("/")[0]
        if scheme in STORES and (":" in host or ("@" in host and scheme.startswith(("s3", "g")))):
            raise UsageError(
                f"{shown}: holds a key, which other users of this machine can see; give it in the "
                "environment or the provider's own configuration"
            )
        try:
            from fsspec.core import url_to_fs

            self.system, self.path = url_to_fs(address)
        except ImportError:
            package = _PACKAGES.get(scheme, "fsspec")
            needs = "ruler-cli[remote]" if package in _EXTRA else package
            raise UsageError(
                f"{shown}: {scheme}:// needs the package {package}; install it with: pip install '{needs}'"
            ) from None
        except ValueError:
            raise UsageError(f"{shown}: {scheme}:// is no kind of address that fsspec knows") from None
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise UsageError(f"{shown}: {reason(error)}") from None

    def open(self, kept: int = KEPT) -> io.BufferedReader[Any]:
        """The object for reading, seekable, in blocks that are fetched when they are wanted; `kept` stay.

        UsageError where it is not there or cannot be read; later too, from `read`.
        """
        cache: dict[str, Any] = {"cache_type": "blockcache", "cache_options": {"maxblocks": kept}}
        with _sentence(self.shown):
            if self.system.info(self.path).get("type") == "directory":
                raise UsageError(f"{self.shown}: is a directory")
            file = self.system.open(self.path, "rb", block_size=BLOCK, **cache)
        if not file.seekable():
            file.close()
            raise UsageError(f"{self.shown}: cannot be read in parts; download it and give the file")
        return io.BufferedReader(_Reading(self.shown, file), 1 << 20)

    def expand(self) -> list[str]:
        """The addresses that a pattern or a directory stands for, in order; a plain object for itself.

        A directory stands for the files directly in it, but for those whose names begin with `.` or `_`,
        which are notes of programs (`_SUCCESS`).
        """
        with _sentence(self.shown):
            try:
                if _GLOB.search(self.path):
                    found = self.system.glob(self.path, detail=True).values()
                elif self._is_directory():
                    found = self.system.ls(self.path, detail=True)
                else:
                    return [self._address]
                names = [str(entry["name"]) for entry in found if entry["type"] == "file"]
            except ValueError:
                raise UsageError(f"{self.shown}: is no pattern; `**` stands alone between slashes") from None
            listed = sorted(name for name in names if not name.rpartition("/")[2].startswith((".", "_")))
            whole, path = self._address.rstrip("/"), self.path.rstrip("/")
            if whole.endswith(path):  # what stands before the path may name a host
                listed = [whole.removesuffix(path) + name for name in listed]
            else:
                listed = [self.system.unstrip_protocol(name) for name in listed]
        if not listed:
            raise UsageError(f"{self.shown}: there is no file; check the address")
        return listed

    def _is_directory(self) -> bool:
        """Who may read an object need not be allowed to list what is beside it."""
        try:
            return bool(self.system.isdir(self.path))
        except Exception as error:
            if refused(error):
                return False
            raise


@contextmanager
def _sentence(shown: str) -> Iterator[None]:
    """Turn what a storage raises into a UsageError."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        raise UsageError(f"{shown}: {reason(error)}") from None


class _Reading(io.RawIOBase):
    """A file of fsspec whose errors are sentences."""

    def __init__(self, shown: str, file: Any) -> None:
        self._shown, self._file = shown, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, at: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._file.seek(at, whence))

    def readinto(self, room: WriteableBuffer, /) -> int:
        view = memoryview(room).cast("B")
        with _sentence(self._shown):
            data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def reason(error: BaseException) -> str:
    """What happened, in words of ours: those of the storage's libraries quote addresses and keys."""
    chain = list(_chain(error))
    kinds = {kind.__name__ for link in chain for kind in type(link).__mro__}
    status = next(filter(None, map(_status, chain)), 0)
    if kinds & _NO_KEY:
        return "no credentials were found; log in with the provider's own tool, or set its variables"
    if refused(error):
        return "access is refused; check the credentials and what they allow"
    if status == 404:
        return "there is no such object; check the address"
    if status >= 300:
        return f"the storage answered with status {status}; try again later"
    if kinds & _UNREACHABLE:
        return "the storage cannot be reached; check the network and the endpoint, then try again"
    if "FileNotFoundError" in kinds:
        return "there is no such object; check the address"
    if "NotImplementedError" in kinds:
        return "nothing can be written there"
    said = error.strerror if isinstance(error, OSError) and error.errno and error.strerror else ""
    return f"failed ({said or type(error).__name__}); try again, or copy the file to this machine"


def refused(error: BaseException) -> bool:
    """Tell if the storage says that this user may not do it."""
    return any(isinstance(link, PermissionError) or _status(link) in (401, 403) for link in _chain(error))


_NO_KEY = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
    "DefaultCredentialsError", "RefreshError", "LocalTokenNotFoundError",
}  # fmt: skip
_UNREACHABLE = {
    "ClientConnectionError", "ConnectionError", "ConnectError", "TimeoutError", "HTTPClientError",
    "FSTimeoutError", "gaierror", "TransportError", "TimeoutException",
}  # fmt: skip


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it: a file system may call a lost connection a missing file."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int:
    """The HTTP status that an error carries, wherever its library keeps it; 0 for none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code")):
        code = getattr(holder, name, None)
        if str(code).isdigit():
            return int(str(code))
    return 0
