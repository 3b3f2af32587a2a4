"""A hub on this machine: it has a folder of files, and else gives one answer."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub(
    files: Path | None, status: int, headers: dict[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """A hub that has a folder of files, and else gives one answer; status 0 stands for none."""
    asked: list[str] = []
    is_over = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            token = self.headers.get("Authorization")
            asked.append(" ".join(filter(None, (self.command, self.path, token))))
            data = self.content()
            if status == 0:
                is_over.wait()
                return
            self.send_response(status if data is None else 200)
            for name, value in headers.items() if data is None else ():
                self.send_header(name, value)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(data or b"")))
            if data is not None:
                self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        def content(self) -> bytes | None:
            if files is None:
                return None
            inside = self.path.partition("?")[0].partition(f"/{COMMIT}/")[2]
            file = files / (inside or Path(self.path).name)
            if "/tree/" in self.path and file.is_dir():
                return json.dumps(
                    [
                        {"type": "file", "path": f"{inside}/{each.name}", "size": 1, "oid": "0"}
                        for each in file.iterdir()
                    ]
                ).encode()
            return file.read_bytes() if file.is_file() else None

        do_GET = do_HEAD

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            is_over.set()
            server.shutdown()
            thread.join()
