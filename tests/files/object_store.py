"""A small S3 server on loopback that fails on request; it also serves plain HTTP with ranges."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

_HEAD = '<?xml version="1.0"?>'


class Store(ThreadingHTTPServer):
    """Objects by `/bucket/key`, uploads in progress, and counts of the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.served = 0
        self.largest = 0
        self.refuse = 0  # a status for everything
        self.refuse_lists = False
        self.refuse_puts_after: int | None = None
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Store:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Store
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in (
            {"Content_Length": str(len(body))} | headers
        ).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _read_request(self) -> tuple[str, dict[str, str], bytes]:
        parts = urlsplit(self.path)
        query = {
            k: v[0]
            for k, v in parse_qs(parts.query, keep_blank_values=True).items()
        }
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _unchunked(body)
        return unquote(parts.path), query, body

    def do_GET(self) -> None:
        path, query, _ = self._read_request()
        if self.server.refuse:
            self._send(self.server.refuse)
        elif path in self.server.objects:
            self._object(self.server.objects[path])
        elif self.server.refuse_lists:
            self._send(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif path.count("/") == 1 or path.endswith("/"):
            self._list(path.strip("/"), query)
        else:
            self._send(
                404,
                b"<Error><Code>NoSuchKey</Code></Error>"
                if self.command == "GET"
                else b"",
            )

    def do_HEAD(self) -> None:
        self.do_GET()

    def _object(self, data: bytes) -> None:
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        common = {
            "Accept_Ranges": "bytes",
            "ETag": '"1"',
            "Last_Modified": "Fri, 21 Nov 2025 00:00:00 GMT",
        }
        if self.command == "HEAD":
            self._send(200, b"", **common, Content_Length=str(len(data)))
        elif wanted is None:
            self._send(200, data, **common)
        else:
            first, last = (
                int(wanted[1]),
                min(int(wanted[2] or len(data)), len(data) - 1),
            )
            part = data[first : last + 1]
            self.server.served += len(part)
            self.server.largest = max(self.server.largest, len(part))
            self._send(
                206,
                part,
                **common,
                Content_Range=f"bytes {first}-{last}/{len(data)}",
            )

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix = query.get("prefix", "")
        if bucket != "bucket":
            self._send(
                404, f"{_HEAD}<Error><Code>NoSuchBucket</Code></Error>".encode()
            )
            return
        keys = [k.split("/", 2)[2] for k in sorted(self.server.objects)]
        below = [k for k in keys if k.startswith(prefix)]
        cut = [
            k
            for k in below
            if not query.get("delimiter") or "/" not in k[len(prefix) :]
        ]
        folders = {
            prefix + k[len(prefix) :].partition("/")[0] + "/"
            for k in below
            if k not in cut
        }
        contents = "".join(
            f"<Contents><Key>{k}</Key><Size>{len(self.server.objects['/bucket/' + k])}</Size>"
            '<ETag>"1"</ETag><LastModified>2025-11-21T00:00:00.000Z</LastModified></Contents>'
            for k in cut
        ) + "".join(
            f"<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>"
            for f in sorted(folders)
        )
        count = len(cut) + len(folders)
        self._send(
            200,
            f"{_HEAD}<ListBucketResult><Name>bucket</Name><Prefix>{prefix}</Prefix><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode(),
        )

    def do_PUT(self) -> None:
        path, query, body = self._read_request()
        left = self.server.refuse_puts_after
        if self.server.refuse or left == 0:
            self._send(
                self.server.refuse or 403,
                b"<Error><Code>AccessDenied</Code></Error>",
            )
            return
        if left is not None:
            self.server.refuse_puts_after = left - 1
        if "partNumber" in query:
            self.server.uploads[query["uploadId"]][int(query["partNumber"])] = (
                body
            )
        else:
            self.server.objects[path] = body
        self._send(200, b"", ETag='"1"')

    def do_POST(self) -> None:
        path, query, _ = self._read_request()
        if "uploads" in query:
            upload = f"u{len(self.server.uploads)}"
            self.server.uploads[upload] = {}
            tag = "InitiateMultipartUploadResult"
            self._send(
                200,
                f"{_HEAD}<{tag}><UploadId>{upload}</UploadId></{tag}>".encode(),
            )
        else:
            parts = self.server.uploads.pop(query["uploadId"])
            self.server.objects[path] = b"".join(
                parts[n] for n in sorted(parts)
            )
            tag = "CompleteMultipartUploadResult"
            self._send(200, f'{_HEAD}<{tag}><ETag>"1"</ETag></{tag}>'.encode())

    def do_DELETE(self) -> None:
        path, query, _ = self._read_request()
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"])
        else:
            self.server.objects.pop(path, None)
        self._send(204)


def _unchunked(body: bytes) -> bytes:
    out, at = b"", 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if not size:
            return out
        out += body[end + 2 : end + 2 + size]
        at = end + 4 + size
