"""Objects in a store: whole or not at all, created once, tried again, errors that name the fix."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError
from dataprep.pipeline.hashes import hash_bytes, hash_file
from dataprep.pipeline.storage.objects import (
    ChangedMeanwhileError,
    NoSuchObjectError,
    Objects,
    ThereAlreadyError,
    failures,
    is_remote,
    open_objects,
)
from support.stores import KEY, S3, SECRET


@pytest.fixture
def objects(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Objects:
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    s3.make_bucket(name)
    return open_objects(f"s3://{name}/a folder/ü")


def test_an_object_comes_back_as_it_was_put_with_its_hash(objects: Objects, tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"few")
    large.write_bytes(os.urandom(1 << 20) * 17)  # in parts
    for path in (small, large):
        e_tag = objects.put(f"in/{path.name}", path, xxh3_128=hash_file(path))
        objects.copy(f"in/{path.name}", f"copies/{path.name}", path.stat().st_size)
        entry, kept = objects.entry_and_hash(f"copies/{path.name}")
        assert objects.entry(f"in/{path.name}").e_tag == e_tag
        assert (entry.num_bytes, kept) == (path.stat().st_size, hash_file(path))
        written = objects.download(entry.name, tmp_path / "back")
        assert (written.num_bytes, written.xxh3_128) == (entry.num_bytes, kept)
        assert (tmp_path / "back").read_bytes() == path.read_bytes()
    assert [entry.name for entry in objects.entries("in/")] == ["in/large", "in/small"]
    objects.delete(["in/large", "not/there"])
    assert [e.name for e in objects.entries()] == ["copies/large", "copies/small", "in/small"]
    data = large.read_bytes()
    assert objects.get_range("copies/large", 5, 7) == data[5:12]
    assert objects.get_range("copies/large", len(data) - 3, 7) == data[-3:]
    assert objects.get("in/small") == b"few"


def test_a_folder_may_have_any_name(objects: Objects) -> None:
    bucket = "/".join(objects.url.split("/")[:3])
    names = ["a#b", "a%41b", "a?b", "a b", "ä", "a+b", "a:b", "a@b"]
    for name in names:
        open_objects(f"{bucket}/{name}").put("data", b"1")
    assert {entry.name for entry in open_objects(bucket).entries()} == {f"{n}/data" for n in names}


def test_what_is_damaged_on_its_way_comes_once_more(
    objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, damaged = Objects.get_range, list[str]()

    def get_range(self: Objects, name: str, first: int, size: int, *, e_tag: str = "") -> bytes:
        data = real(self, name, first, size, e_tag=e_tag)
        if name in damaged:
            return data
        damaged.append(name)
        return bytes([data[0] ^ 1]) + data[1:]

    monkeypatch.setattr(Objects, "get_range", get_range)
    objects.put("one", b"few", xxh3_128=hash_bytes(b"few"))
    objects.download("one", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == b"few"
    objects.put("other", b"few", xxh3_128=hash_bytes(b"new"))
    with pytest.raises(CorruptError, match="another content"):
        objects.download("other", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_objects_that_stand_for_folders_are_none(objects: Objects, s3: S3) -> None:
    bucket = objects.url.split("/")[2]
    for name in ("", "shards/", "shards/deep/", "b"):
        place = urllib.parse.quote(f"{bucket}/a folder/ü/{name}")
        request = urllib.request.Request(f"http://127.0.0.1:{s3.port}/{place}", b"", method="PUT")
        urllib.request.urlopen(request).close()
    objects.put("shards/deep/a", b"")
    assert [entry.name for entry in objects.entries()] == ["b", "shards/deep/a"]


def test_an_object_is_created_once_and_replaced_only_by_who_has_seen_it(objects: Objects) -> None:
    seen = objects.create("manifest.json", b"1")
    assert objects.create("manifest.json", b"1") == seen  # the first answer may have been lost
    with pytest.raises(ThereAlreadyError):
        objects.create("manifest.json", b"2")
    new = objects.replace("manifest.json", b"3", seen)
    with pytest.raises(ChangedMeanwhileError):
        objects.replace("manifest.json", b"4", seen)
    assert objects.get("manifest.json") == b"3"
    assert objects.entry("manifest.json").e_tag == new
    with pytest.raises(NoSuchObjectError):
        objects.get("other.json")


def test_a_cut_line_is_tried_again_then_a_resource_error(
    objects: Objects, s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20) * 12)
    with s3.line() as line:
        for name, value in s3.env(line.port, seconds=20).items():
            monkeypatch.setenv(name, value)
        line.cut_after = 6 << 20
        mending = threading.Timer(1.0, line.mend)
        mending.start()
        try:
            again = open_objects(objects.url)
            again.put("data", path, xxh3_128="ab")
            assert line.was_cut
            assert again.entry_and_hash("data")[0].num_bytes == path.stat().st_size
            monkeypatch.setenv("DATAPREP_RETRY_SECONDS", "0.5")
            line.cut()
            with pytest.raises(ResourceError, match="run the same command again") as raised:
                open_objects(objects.url).get("data")
            assert "\n" not in str(raised.value)
            assert SECRET not in str(raised.value)
            assert KEY not in str(raised.value)
        finally:
            mending.cancel()


def test_what_fails_after_long_is_tried_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAPREP_RETRY_SECONDS", "0.5")
    monkeypatch.setattr(failures, "RETRY_SECONDS", 0.1)
    begun: list[float] = []

    def upload() -> str:
        begun.append(time.monotonic())
        if len(begun) == 1:
            time.sleep(0.6)  # all the time it was answered
            raise GenericError("the line was cut")
        return "done"

    assert failures.tried("s3://bucket/large", "write", upload, is_large=True) == "done"
    assert len(begun) == 2


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses everybody: as Amazon does, with 400 where a token has expired."""

    def do_GET(self) -> None:
        self._refuse(403, b"AccessDenied")

    def do_PUT(self) -> None:
        self._refuse(400, b"ExpiredToken")

    def _refuse(self, status: int, code: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b'<?xml version="1.0"?>\n<Error><Code>%s</Code></Error>' % code)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def refusing() -> Iterator[int]:
    with served(Refusing) as port:
        yield port


class Forgetting(BaseHTTPRequestHandler):
    """A server whose answer to the end of an upload was lost: it knows of no such upload when it is
    told again."""

    ends = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(200, "")

    def do_DELETE(self) -> None:
        self._answer(404, "<Error><Code>NoSuchUpload</Code></Error>")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploadId" not in self.path:
            return self._answer(200, "<A><UploadId>1</UploadId></A>")
        Forgetting.ends += 1
        if Forgetting.ends == 1:
            return self._answer(404, "<Error><Code>NoSuchUpload</Code></Error>")
        return self._answer(200, '<A><ETag>"whole"</ETag></A>')

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("ETag", '"part"')
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class Busy(BaseHTTPRequestHandler):
    """A server on which another writer is in the way of the first upload."""

    puts = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Busy.puts += 1
        self.send_response(409 if Busy.puts == 1 else 200)
        self.send_header("ETag", '"put"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_an_upload_that_another_is_in_the_way_of_is_made_once_more(
    objects: Objects, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Busy) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.env(port)["AWS_ENDPOINT_URL"])
        assert open_objects(objects.url).put("a", b"1") == '"put"'
    assert Busy.puts == 2


def test_an_upload_whose_end_is_forgotten_is_made_once_more(
    objects: Objects, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Forgetting) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.env(port)["AWS_ENDPOINT_URL"])
        assert open_objects(objects.url).put("large", bytes(9 << 20)) == '"whole"'
    assert Forgetting.ends == 2


def test_what_the_user_must_mend_is_a_config_error_at_once(
    objects: Objects, s3: S3, refusing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = open_objects("s3://there-is-none/folder")
    for call in (absent.entries, lambda: absent.put("a", b"1"), lambda: absent.create("a", b"1")):
        with pytest.raises(ConfigError, match="s3://there-is-none does not exist; make the bucket"):
            call()
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.env(refusing)["AWS_ENDPOINT_URL"])
    refused = open_objects(objects.url)
    for call in (refused.entries, lambda: refused.put("a", b"1"), lambda: refused.get("a")):
        with pytest.raises(ConfigError, match="refuses it"):
            call()


def test_an_endpoint_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio of ours")
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL='minio of ours' must be http"):
        open_objects("s3://bucket/a")


@pytest.mark.parametrize(
    "url", ["s3://KEYID:SECRET@bucket/a", "s3://bucket/a?sig=SECRET", "s3:bucket", "s3://b/../a"]
)
def test_addresses_hold_no_credentials_and_no_way_out(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_objects(url)
    assert "SECRET" not in str(raised.value)


def test_keys_come_from_the_profile_where_the_environment_has_none(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    held = tmp_path / "credentials"
    held.write_text(f"[other]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(held))
    monkeypatch.setenv("AWS_PROFILE", "other")
    open_objects(objects.url).put("a", b"1")
    assert objects.get("a") == b"1"


def test_names_that_are_remote() -> None:
    assert all(map(is_remote, ["s3://b/a", "gs://b", "az://c/a", "s3:/b/a"]))
    assert not any(map(is_remote, ["data", "/s3://", "https://h/a", "hf:name", "file:///a", "-"]))
