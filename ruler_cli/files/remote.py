"""s3://, gs://, hf:// and whatever else fsspec opens: read in blocks, listed, and told in sentences.

Nothing is downloaded whole. A sentence never holds what an address may carry besides the place: user,
password, query. The words of the storage's own libraries are not repeated, because they quote both.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ruler_cli.errors import OutputError, UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 2 << 20
"""Bytes of one request."""
_KEPT = 32
"""Blocks of one file that stay in memory: a Parquet file is read at as many places as it has columns."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_STORES = frozenset({"s3", "s3a", "gs", "gcs", "hf", "az", "abfs", "abfss", "adl"})
_GLOB = re.compile(r"[*?[]")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub",
             "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}  # fmt: skip
_EXTRA = frozenset({"s3fs", "gcsfs", "huggingface_hub", "aiohttp", "fsspec"})


def is_remote(name: str) -> bool:
    """Whether a name is an address and no file of this machine; `C:/x` and `file:///x` are files."""
    found = _SCHEME.match(name)
    return found is not None and found[1].lower() != "file"


def public(name: str) -> str:
    """An address as a sentence may show it: without user, password and query."""
    found = _SCHEME.match(name)
    if found is None:
        return name
    scheme, rest = found[1].lower(), name[found.end() :]
    if scheme in ("http", "https") or "=" in rest.partition("?")[2]:  # elsewhere `?` may be a pattern
        rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    if scheme in _STORES and ":" in host:  # a secret key may hold slashes
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def same_place(one: str, other: str) -> bool:
    """Whether two names lead to one file, or to one address."""
    if is_remote(one) or is_remote(other):
        return public(one).rstrip("/") == public(other).rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


def opened(name: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path in it; UsageError where there is none."""
    scheme = name.partition("://")[0].lower()
    host = name.partition("://")[2].partition("/")[0]
    if scheme in _STORES and (":" in host or ("@" in host and scheme.startswith(("s3", "g")))):
        raise UsageError(
            f"{public(name)}: holds a key, which other users of this machine can see; give it in the "
            "environment or the provider's own configuration"
        )
    try:
        from fsspec.core import url_to_fs

        return cast("tuple[Any, str]", url_to_fs(name))
    except ImportError:
        package = _PACKAGES.get(scheme, "fsspec")
        needs = "ruler-cli[remote]" if package in _EXTRA else package
        raise UsageError(
            f"{public(name)}: {scheme}:// needs the package {package}; install it with: pip install '{needs}'"
        ) from None
    except ValueError:
        raise UsageError(f"{public(name)}: {scheme}:// is no kind of address that fsspec knows") from None
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        raise UsageError(f"{public(name)}: {reason(error)}") from None


def open_remote(name: str, kept: int = _KEPT) -> io.BufferedReader[Any]:
    """An object for reading, seekable, in blocks that are fetched when they are wanted; `kept` stay.

    UsageError where it is not there or cannot be read; later too, from `read`.
    """
    system, path = opened(name)
    try:
        if system.info(path).get("type") == "directory":
            raise UsageError(f"{public(name)}: is a directory")
        file = system.open(
            path, "rb", block_size=BLOCK, cache_type="blockcache", cache_options={"maxblocks": kept}
        )
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        raise UsageError(f"{public(name)}: {reason(error)}") from None
    if not file.seekable():
        file.close()
        raise UsageError(f"{public(name)}: cannot be read in parts; download it and give the file")
    return io.BufferedReader(_Reading(public(name), file), 1 << 20)


def expand_remote(pattern: str) -> list[str]:
    """The addresses that a pattern or a directory stands for, in order; a plain object for itself.

    A directory stands for the files directly in it, but for those whose names begin with `.` or `_`,
    which are notes of programs (`_SUCCESS`).
    """
    if pattern.lower().startswith(("http://", "https://")):  # servers list nothing; `?` begins a query
        return [pattern]
    system, path = opened(pattern)
    try:
        if _GLOB.search(path):
            found = system.glob(path, detail=True).values()
        elif _is_directory(system, path):
            found = system.ls(path, detail=True)
        else:
            return [pattern]
        names = [entry["name"] for entry in found if entry["type"] == "file"]
        listed = sorted(str(n) for n in names if not n.rpartition("/")[2].startswith((".", "_")))
        whole = pattern.rstrip("/")
        if whole.endswith(path.rstrip("/")):  # what stands before the path may name a host
            listed = [whole.removesuffix(path.rstrip("/")) + name for name in listed]
        else:
            listed = [system.unstrip_protocol(name) for name in listed]
    except ValueError:
        raise UsageError(f"{public(pattern)}: is no pattern; `**` stands alone between slashes") from None
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        raise UsageError(f"{public(pattern)}: {reason(error)}") from None
    if not listed:
        raise UsageError(f"{public(pattern)}: there is no file; check the address")
    return listed


def _is_directory(system: Any, path: str) -> bool:
    """Who may read an object need not be allowed to list what is beside it."""
    try:
        return bool(system.isdir(path))
    except Exception as error:
        if refused(error):
            return False
        raise


def files_below(name: str) -> list[str]:
    """The files directly in a directory; none where there is no such directory."""
    system, path = opened(name)
    try:
        found = system.ls(path, detail=True) if _is_directory(system, path) else []
    except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
        raise UsageError(f"{public(name)}: {reason(error)}") from None
    return [str(entry["name"]) for entry in found if entry["type"] == "file"]


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
        try:
            data = self._file.read(len(view))
        except Exception as error:  # noqa: BLE001 - each file system raises what its own libraries raise
            raise UsageError(f"{self._shown}: {reason(error)}") from None
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
    """Whether the storage says that this user may not do it."""
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


def failed(shown: str, error: BaseException) -> OutputError:
    """What writing met, as an error that says so."""
    return OutputError(
        f"{shown}: cannot be written: {reason(error)}; what was paid for is kept, run the same command again"
    )
