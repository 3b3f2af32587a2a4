"""Credentials in a URL reach the store, and nothing else: no file, no message, no identity."""

from __future__ import annotations

import json
import logging
import textwrap
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Finished, RunCli
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards import secrets
from dataprep.pipeline.guards.secrets import (
    address_of,
    hidden,
    identity_of,
    redacted,
    without_secrets,
)
from dataprep.pipeline.jobs.executors import run_local
from dataprep.pipeline.sources import find_sources
from support.installed import python_path

SECRETS = ("AKIAKEY12345", "Sec/ret+Key99", "tok3n-of-mine")
USER = f"{SECRETS[0]}:{SECRETS[1]}"

# A store that keeps credentials in its paths, as some do, wants them, and shows them in errors.
STORE = textwrap.dedent(
    """
    import os
    from fsspec.implementations.local import LocalFileSystem

    class Vault(LocalFileSystem):
        protocol = ("vault",)
        cachable = False

        @classmethod
        def _strip_protocol(cls, path, **kwargs):
            return path.removeprefix("vault://").rstrip("/")

        def _place(self, path):
            path = self._strip_protocol(str(path))
            if not path.startswith(os.environ["VAULT_USER"] + "@bucket"):
                raise PermissionError(f"403 Forbidden for vault://{path}")
            place, _, query = path.partition("?")
            if "q.jsonl" in place and query != "token=" + os.environ["VAULT_TOKEN"]:
                raise RuntimeError(f"bad signature in vault://{path}")
            return os.environ["VAULT_ROOT"] + place.partition("@bucket")[2]

        def info(self, path, **kwargs):
            return {**super().info(self._place(path)), "name": self._strip_protocol(str(path))}

        def ls(self, path, detail=False, **kwargs):
            path = self._strip_protocol(str(path))
            names = [f"{path}/{name}" for name in sorted(os.listdir(self._place(path)))]
            return [self.info(name) for name in names] if detail else names

        def isfile(self, path):
            return os.path.isfile(self._place(path))

        def exists(self, path, **kwargs):
            return os.path.exists(self._place(path))

        def _open(self, path, mode="rb", **kwargs):
            return open(self._place(path), mode)

        def open(self, path, mode="rb", **kwargs):
            return self._open(path, mode)

    import fsspec
    fsspec.register_implementation("vault", Vault, clobber=True)
    """
)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_addresses", {})
    monkeypatch.setattr(secrets, "_secrets", {})


class Store:
    """Runs commands that know the store, and keeps all that they print and write."""

    def __init__(self, folder: Path, run_cli: RunCli) -> None:
        self.folder, self._run = folder, run_cli
        (folder / "python").mkdir()
        (folder / "python" / "sitecustomize.py").write_text(STORE)
        self.root = folder / "root"
        self.root.mkdir()
        self.said = ""

    def environment(self, user: str = USER) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.folder / "python"),
            "VAULT_ROOT": str(self.root),
            "VAULT_USER": user,
            "VAULT_TOKEN": SECRETS[2],
            "DATAPREP_CACHE": str(self.folder / "cache"),
        }

    def run(self, *args: str, check: bool = True, user: str = USER) -> Finished:
        ended = self._run(*args, env=self.environment(user), check=False)
        self.said += ended.stdout + ended.stderr
        assert not check or ended.code == 0, ended.stderr
        return ended

    def leaks(self) -> list[str]:
        """Return where a secret stands: in what was printed, in files or their names."""
        found = [secret for secret in SECRETS if secret in self.said]
        for path in self.folder.rglob("*"):
            if path.is_file() and "python" not in path.parts:
                data = path.read_bytes()
                found += [str(path) for secret in SECRETS if secret.encode() in data]
        return found


@pytest.fixture
def store(tmp_path: Path, run_cli: RunCli) -> Store:
    return Store(tmp_path, run_cli)


def fill(store: Store) -> None:
    good = "".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(5))
    (store.root / "a.jsonl").write_text(good + "not JSON\n")
    (store.root / "q").mkdir()
    (store.root / "q" / "q.jsonl").write_text(good)


def test_credentials_stand_in_no_output(store: Store) -> None:
    fill(store)
    inputs = (f"vault://{USER}@bucket/a*", f"vault://{USER}@bucket/q/q.jsonl?token={SECRETS[2]}")
    flags = ("--tokenizer", "bytes", "--out", "tok", "--on-error", "quarantine")
    store.run("tokenize", *inputs, *flags, "--dry-run")
    store.run("tokenize", *inputs, *flags, "--log-format", "json")
    assert store.run("tokenize", *inputs, *flags).stdout.startswith("nothing to do")
    store.run("pack", "tok", "--seq-len", "16", "--out", "packed")
    shown = store.run("inspect", "tok", "--doc", "0").stdout
    assert "vault://***@bucket/a.jsonl" in shown
    assert "vault://***@bucket/a.jsonl" in (store.folder / "tok/errors.jsonl").read_text()
    manifest = json.loads((store.folder / "tok" / "manifest.json").read_text())
    paths = [source["path"] for source in manifest["sources"]]
    assert paths == ["vault://***@bucket/a.jsonl", "vault://***@bucket/q/q.jsonl?token=***"]
    assert manifest["counts"]["documents_written"] == 10
    assert store.leaks() == []


def test_new_credentials_are_no_new_identity(store: Store) -> None:
    fill(store)
    flags = ("--tokenizer", "bytes", "--out", "tok")
    store.run("tokenize", f"vault://{USER}@bucket/a.jsonl", *flags, "--on-error", "skip")
    again = store.run(
        *("tokenize", "vault://new:other@bucket/a.jsonl", *flags, "--on-error", "skip"),
        user="new:other",
    )
    assert again.stdout.startswith("nothing to do")


@pytest.mark.parametrize(
    "spec",
    [
        f"vault://{USER}@bucket/absent.jsonl",
        f"vault://{USER}@bucket/q/q.jsonl?token=wrong-{SECRETS[2]}",
        f"vault://{USER}@elsewhere/a.jsonl",
        f"vault://{USER}@bucket/*.nothing",
        f"zip://a.jsonl::vault://{USER}@bucket/absent.zip",
        f"hf:org/name?token={SECRETS[2]}",
        f"unknown://{USER}@bucket/a.jsonl",
    ],
)
def test_credentials_stand_in_no_error_of_a_library(
    store: Store, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    exec(compile(STORE, "store", "exec"), {"__name__": "store"})
    with pytest.raises(InputError) as raised:
        find_sources(spec)
    assert "***" in str(raised.value)
    assert not any(secret in str(raised.value) for secret in SECRETS)


def test_credentials_stand_in_no_error_of_a_worker(store: Store) -> None:
    fill(store)
    url = f"vault://{USER}@bucket/a.jsonl"
    ended = store.run("tokenize", url, "--tokenizer", "bytes", "--out", "tok", check=False)
    assert ended.code == 3
    assert "line 6 of vault://***@bucket/a.jsonl" in ended.stderr
    assert (store.folder / "tok" / ".work" / "plan.json").exists()  # as a killed run leaves it
    assert store.leaks() == []


def test_credentials_stand_in_no_config_error(store: Store) -> None:
    spec = f"vault://{USER}@bucket/a.jsonl"
    for args in (
        ("tokenize", spec, "--set", f"limit={spec}"),
        ("tokenize", spec, "--tokenizer", "bytes", "--out", spec),
        ("tokenize", spec, "--nonsense", spec),
        ("pack", spec, "--out", "p"),
        ("encode", spec, "--encoder", spec, "--out", "e"),
    ):
        assert store.run(*args, check=False).code in (2, 5)
    assert store.leaks() == []


def test_a_worker_gets_the_addresses_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than an environment holds, and none of them is in its own."""
    urls = [f"s3://user:password{i}@bucket/{i:0200d}" for i in range(20_000)]
    names = hidden(urls)
    assert len(secrets.packed()) > 1 << 22
    told: list[object] = []
    (tmp_path / "telling.py").write_text(
        "import os\n"
        "from dataprep.pipeline.guards.secrets import address_of\n"
        "def begin(work):\n"
        "    def run(job, send):\n"
        f"        send({{'type': 'told', 'value': [address_of(n) for n in {names[::5000]!r}]}})\n"
        "        send({'type': 'told', 'value': 'password1' in str(os.environ)})\n"
        "        return lambda: None\n"
        "    return run\n"
    )
    run_local(
        [0],
        worker="telling",
        work=tmp_path,
        environment={"PYTHONPATH": python_path(tmp_path)},
        num_workers=1,
        describe=str,
        on_message=lambda message: told.append(message["value"]),
    )
    assert told == [urls[::5000], False]


def test_what_was_packed_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = ["s3://user:password1@bucket/x", "https://h/a?token=tok3n-of-mine"]
    names, data = hidden(urls), secrets.packed()
    monkeypatch.setattr(secrets, "_addresses", {})
    monkeypatch.setattr(secrets, "_secrets", {})
    secrets.learn(b"")
    assert [address_of(name) for name in names] == names
    secrets.learn(data)
    assert [address_of(name) for name in names] == urls
    assert without_secrets("password1, tok3n-of-mine") == "***, ***"


@pytest.mark.timeout(60)
def test_the_time_to_hide_secrets_does_not_grow_with_their_number() -> None:
    """Some 20 minutes, if each text is compared with each secret."""
    names = hidden([f"https://h/{i}?sig={i:064x}&key=AK{i:020d}" for i in range(20_000)])
    for number, name in enumerate(names):
        assert redacted(f"cannot read {number:064x} of {name}") == f"cannot read *** of {name}"


@pytest.mark.parametrize(
    "url",
    [
        "https://h/x?key[0]=SEKRIT-OF-MINE",
        "https://h/x?id=7&a[b][]=SEKRIT-OF-MINE",
        "https://h/x?sig=ab'SEKRIT-OF-MINE",
        'https://h/x?sig=ab"SEKRIT-OF-MINE',
        "https://h/x?sig=a b<SEKRIT-OF-MINE>",
        "https://h/x?sig=ab;SEKRIT-OF-MINE",
        "https://h/x?sig=ab::SEKRIT-OF-MINE",
        "https://h/x?sig=ab?SEKRIT-OF-MINE",
        "https://h/x?SEKRIT-OF-MINE",
        "https://h/x?id=7&SEKRIT-OF-MINE",
        "https://h/x#SEKRIT-OF-MINE",
        "https://h/x?id=7#access_token=SEKRIT-OF-MINE&type=bearer",
        "https://h/a;tok=SEKRIT-OF-MINE/x.jsonl",
        "https://h/x.jsonl;tok=SEKRIT-OF-MINE?id=7",
        "https://user:pa::SEKRIT-OF-MINE@h/x",
        "https://user:pa#SEKRIT-OF-MINE@h/x",
        "https://user:pa?SEKRIT-OF-MINE@h/x",
        "https://user:pa'SEKRIT-OF-MINE@h/x",
        "zip://a.jsonl::https://user:pa::SEKRIT-OF-MINE@h/x.zip#SEKRIT-OF-MINE",
        "simplecache::s3://KEY:SEKRIT-OF-MINE'\"@bucket/x",
        "webdav+https://u:SEKRIT-OF-MINE@h/x?SEKRIT-OF-MINE",
        "hf:org/name?token[]=SEKRIT-OF-MINE",
        "unknown://a::s3://KEY:SEKRIT-OF-MINE@bucket/x",
    ],
)
def test_no_odd_spelling_of_an_address_shows_what_it_hides(url: str) -> None:
    (name,) = hidden([url])
    assert "SEKRIT" not in name
    assert "***" in name
    assert address_of(name) == url
    assert hidden([name]) == [name]
    assert secrets.is_marked(name)  # a later process knows that something is missing
    assert "SEKRIT" not in redacted(f"cannot open {url}: 403")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("https://h/x?key[0]=a", "https://h/x?key[0]=b", True),
        ("https://h/x#token-a", "https://h/x#token-b", True),
        ("https://h/x;token=a/y", "https://h/x;token=b/y", True),
        ("https://me:a::b@h/x", "https://me:c@h/x", True),
        ("https://h/x?file-a", "https://h/x?file-b", False),  # it may say which file is meant
        ("https://h/x;part=a", "https://h/x;part=b", False),
        ("https://h/x?jwt=a&tok=1", "https://h/x?jwt=b&tok=2", True),
        ("hdfs://h/x?delegation=a", "hdfs://h/x?delegation=b", True),
        ("github://org:one@main/x", "github://org:two@main/x", False),  # another repository
        ("oci://one@space/x", "oci://two@space/x", False),
    ],
)
def test_the_identity_of_an_address_does_not_depend_on_its_credentials(
    one: str, other: str, is_same: bool
) -> None:
    assert (identity_of(one) == identity_of(other)) == is_same


URL = "ftp://me:SEKRIT-OF-MINE@host/a"
CUT = "ftp://me:SEKRIT-OF-MINE-that-is-longer-than-what-a-message-shows-of-a-value@host/a"


@pytest.mark.parametrize("url", [URL, CUT])
@pytest.mark.parametrize(
    ("record", "flags"),
    [
        ({"text": {"url": "{}"}}, []),
        ({"{}": "a"}, []),
        ({"spec": "{}"}, ["--fields-from", "spec"]),
        ({"vision": "{}"}, ["--fields", "vision"]),
        ({"messages": [{"role": "{}", "content": "a"}]}, ["--chat"]),
        ({"conversations": [{"from": "{}", "value": "a"}]}, ["--chat", "conversations"]),
        ({"image": "{}"}, None),
        ({"image": {"{}": 1}}, None),
    ],
)
def test_credentials_of_a_record_stand_in_no_reason(
    record: object, flags: list[str] | None, url: str, run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(record).replace("{}", url) + "\n", "utf-8")
    chat = ["--chat-template", "chatml"] if "--chat" in (flags or []) else []
    words = ["encode", "--encoder", "patches"] if flags is None else ["tokenize", *flags, *chat]
    common = ["--out", tmp_path / "out", "--on-error", "quarantine", "--allow-empty"]
    tokenizer = [] if flags is None else ["--tokenizer", "bytes"]
    command = [words[0], tmp_path / "a.jsonl", *words[1:], *tokenizer, *common]
    seen = run_cli(*command, "--dry-run")
    assert "SEKRIT" not in seen.stdout + seen.stderr
    assert "the first bad one" in seen.stdout
    done = run_cli(*command)
    assert "SEKRIT" not in done.stdout + done.stderr + (tmp_path / "out/errors.jsonl").read_text()


def test_the_name_of_a_user_is_hidden_in_urls_only() -> None:
    hidden(["s3://dataprep:verysecret1@bucket/a"])
    shown = redacted("s3://dataprep:verysecret1@bucket to /home/dataprep/out: verysecret1")
    assert shown == "s3://***@bucket to /home/dataprep/out: ***"
    assert without_secrets("dataprep:verysecret1, dataprep") == "***, dataprep"


@pytest.mark.parametrize("user", ["token-of-mine", "token-of-mine:"])
def test_a_user_without_a_password_is_a_token(user: str) -> None:
    hidden([f"https://{user}@host/a"])
    assert without_secrets("401 for token-of-mine") == "401 for ***"


def test_the_longest_of_secrets_that_hold_each_other_is_hidden_first() -> None:
    tails = ["-and-more", "", "-and", "-and-more-of-it"]
    hidden([f"https://h/a?token=long-secret{tail}" for tail in tails])
    assert [without_secrets(f"long-secret{tail}!") for tail in tails] == ["***!"] * 4


@pytest.mark.parametrize("given", ["pass+wo/rd=1", "pass%2Bwo%2Frd%3D1", "pass%2bwo%2frd%3d1"])
def test_secrets_are_hidden_however_they_are_quoted(given: str) -> None:
    hidden([f"ftp://me:{given}@host/a"])
    for text in (given, "pass+wo/rd=1", "pass%2Bwo%2Frd%3D1", "pass%2Bwo/rd%3D1"):
        assert without_secrets(text) == "***"


def test_addresses_that_differ_in_what_is_hidden_stay_apart() -> None:
    given = ["https://h/get?x=first-one", "https://h/get?x=other-one", "https://h/get?x=first-one"]
    names = hidden(given)
    assert names == ["https://h/get?x=***", "https://h/get?x=***2", "https://h/get?x=***"]
    assert [address_of(name) for name in names] == given
    assert hidden(names) == names


@pytest.mark.parametrize(
    "plain",
    [
        "s3://bucket/a.jsonl",
        "abfs://container@account.dfs.core.windows.net/a.jsonl",
        "sftp://me@host/a.jsonl",
        "https://host:8080/a@b.jsonl",
        "memory://a@b.jsonl",
        "s3://bucket/year=202?/month=1/a.jsonl",
        "https://h/a.jsonl?versionId=3",
        "zip://a.jsonl::s3://b/x.zip",
        "/data/user:me@home.jsonl",
        "hf:org/name:config@train?streaming=1",
    ],
)
def test_a_name_without_credentials_stays_as_it_is(plain: str) -> None:
    assert hidden([plain]) == [plain] == [redacted(plain)]


SECRET = st.text("abcXYZ0189+/=-_.~%", min_size=8, max_size=24)


@given(key=st.from_regex(r"[A-Z]{4,16}", fullmatch=True), secret=SECRET, token=SECRET)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_credential_survives(key: str, secret: str, token: str) -> None:
    for url in (
        f"s3://{key}:{secret}@bucket/x",
        f"zip://a.jsonl::s3://{key}:{secret}@bucket/x.zip",
        f"https://{key}@host/a.jsonl?X-Amz-Signature={token}&versionId=1",
        f"simplecache::ftp://{key}:{quote(secret, safe='')}@host/a?token={token}",
    ):
        (name,) = hidden([url])
        assert address_of(name) == url
        for text in (name, redacted(f"cannot open '{url}', {url}"), redacted(f"401 ({secret})")):
            assert secret not in text.replace("***", "")
            assert token not in text.replace("***", "")
        config = TokenizeConfig.model_validate({"inputs": [url]})
        assert secret not in config.model_dump_json()
        assert secret not in str(InputError(f"cannot read {url}"))
        assert secret not in identity_of(name)
        assert token not in identity_of(name)


def test_what_libraries_log_has_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    hidden(["s3://user:my-long-secret@bucket/x"])
    logging.getLogger("some.library").warning("retrying %s", "s3://user:my-long-secret@bucket")
    assert "my-long-secret" not in caplog.text
    assert "retrying s3://***@bucket" in caplog.text


def test_a_name_whose_credentials_are_not_known_says_so() -> None:
    with pytest.raises(InputError, match="not recorded; name it with them"):
        find_sources("s3://***@bucket/never-given.jsonl")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("word", ["A", "ab:/a:b/", "?a", "?a=b&", ":/", "ab://a:b/", "a@", "a:"])
def test_long_words_are_searched_in_linear_time(word: str) -> None:
    text = "http:/ http:/" + word * ((1 << 20) // len(word))
    assert redacted(f"{text} s3://key:secret@bucket").endswith(" s3://***@bucket")
