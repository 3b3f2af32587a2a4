"""An S3 server on this machine, and a line to it that can be cut and slowed.

    client ── Line ── moto_server          line.cut(), line.mend(); line.delay = 0.02

The server keeps its objects in memory, so it is never killed: cutting the line looks the same from
here, to the byte: a request may be cut in the midst of what it sends.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

KEY, SECRET = "AKIDOFTESTS12345", "secret/of+tests/0123456789abcdefghij"


@dataclass(slots=True)
class Line:
    """Passes bytes on to a server; may be cut, also after so many bytes, and slowed."""

    server: int  # its port
    delay: float = 0.0  # seconds that each request takes more
    port: int = 0
    sent: int = 0  # bytes that clients have sent
    cut_after: int | None = None  # of these bytes; then the line is dead until it is mended
    was_cut: bool = False
    is_dead: bool = False
    pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    listener: socket.socket | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and refuse others."""
        self.was_cut = self.is_dead = True
        with self.lock:
            listener, self.listener = self.listener, None
            pairs, self.pairs = self.pairs, []
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def mend(self) -> None:
        self.is_dead, self.cut_after = False, None
        if self.listener is None:
            self.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server))
            except OSError:
                return
            with self.lock:
                self.pairs.append((client, server))
            asked = threading.Event()  # set while a request of this connection is under way
            for ends in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(*ends, asked), daemon=True).start()

    def _pass(
        self, source: socket.socket, to: socket.socket, is_client: bool, asked: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_client:
                    self.sent += len(data)
                    if self.cut_after is not None and self.sent >= self.cut_after:
                        to.sendall(data[: len(data) // 2])  # in the midst of a request
                        self.cut()
                        return
                if not is_client:
                    asked.clear()
                elif not asked.is_set():  # once a request, however long it is
                    asked.set()
                    time.sleep(self.delay)
                to.sendall(data)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3:
    """The server of the tests, and how commands reach it."""

    port: int

    def env(self, port: int = 0, *, seconds: float = 2) -> Mapping[str, str]:
        """The environment of a command; `port` of a line, `seconds` until it gives up."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "DATAPREP_RETRY_SECONDS": str(seconds),
        }

    def make_bucket(self, name: str) -> None:
        place = f"http://127.0.0.1:{self.port}/{name}"
        urllib.request.urlopen(urllib.request.Request(place, method="PUT")).close()

    @contextmanager
    def line(self) -> Iterator[Line]:
        line = Line(server=self.port)
        line.start()
        try:
            yield line
        finally:
            line.cut()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextmanager
def s3_server() -> Iterator[S3]:
    """Run moto's server until the end of the block."""
    port = free_port()
    words = ("-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            assert process.poll() is None, "moto_server ended"
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.05)
        yield S3(port=port)
    finally:
        process.kill()
        process.wait()
