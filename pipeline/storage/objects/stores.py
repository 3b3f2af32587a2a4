"""The client of a bucket, with the credentials of the environment's usual places.

    s3://bucket/folder       AWS_ACCESS_KEY_ID …, ~/.aws/credentials, a web identity, the machine's
    gs://bucket/folder       GOOGLE_APPLICATION_CREDENTIALS, gcloud's own, the machine's
    az://container/folder    AZURE_STORAGE_ACCOUNT_NAME with its key, token, identity

Endpoints too: AWS_ENDPOINT_URL=http://127.0.0.1:9000 names another server than Amazon's. Addresses
hold no credentials, so that none can get into manifests, logs and errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.secrets import hidden, redacted

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az"}
PATIENCE = "DATAPREP_RETRY_SECONDS"
_PATIENCE_SECONDS = 180.0  # how long a store that does not answer is tried again
RETRY_SECONDS = 30.0  # of these, for one request; `failures` tries again what it was for
_REQUEST_SECONDS = 300.0  # of one request: parts of a large object over a thin line
_ADDRESS = re.compile(r"(?P<scheme>[a-z0-9]+)://?(?P<bucket>[^/]+)(?P<folder>/.*)?")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_HELD = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE")


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Return whether a name is the address of objects in a store.

    >>> is_remote("s3://bucket/packed"), is_remote("data/packed"), is_remote("https://host/a")
    (True, False, False)
    """
    scheme, separator, _ = os.fspath(name).partition(":/")
    return bool(separator) and scheme in SCHEMES


def cleaned(url: str) -> str:
    """Return the address in the one way that it is written; a ConfigError if it cannot be one.

    >>> cleaned("s3a://bucket//packed/"), cleaned("gs://bucket")
    ('s3://bucket/packed', 'gs://bucket')
    """
    found = _ADDRESS.fullmatch(url)
    (shown,) = hidden([url])
    if shown != url or (found and "@" in found["bucket"]):
        raise ConfigError(
            f"{shown} holds a key or a parameter; credentials of object stores are read from the "
            "environment only (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_…)"
        )
    if not found or found["scheme"] not in SCHEMES:
        raise ConfigError(f"{shown} is not the address of a folder in a bucket: s3://bucket/folder")
    parts = [part for part in (found["folder"] or "").split("/") if part]
    if any(part in (".", "..") or not part.isprintable() for part in parts):
        raise ConfigError(f"{shown!a} has a part that no object can be named by; name another")
    return "/".join([f"{SCHEMES[found['scheme']]}://{found['bucket']}", *parts])


def patience() -> float:
    """Return for how many seconds a store that does not answer is tried again."""
    given = os.environ.get(PATIENCE, "")
    try:
        seconds = float(given or _PATIENCE_SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ConfigError(f"{PATIENCE}={given!r} must be a number of seconds")
    return seconds


def new_store(url: str) -> Any:
    """Return the obstore client of a cleaned address."""
    # 30 ms, which commands that stay on this machine need not wait for.
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    _check_endpoints(os.environ)
    scheme = url.partition(":")[0]
    seconds = patience()
    values: dict[str, Any] = _from_profile(os.environ) if scheme == "s3" else {}
    try:
        return from_url(
            # Else # or ? would be the end of the folder's name, and %41 an A.
            quote(url, safe="/:$"),
            client_options={
                "allow_http": _is_plain(os.environ),
                "timeout": timedelta(seconds=_REQUEST_SECONDS),
            },
            retry_config={"retry_timeout": timedelta(seconds=min(seconds, RETRY_SECONDS))},
            **values,
        )
    except (BaseError, ValueError) as error:
        said = redacted(str(error).partition("\n")[0])
        raise ConfigError(f"cannot use {url}: {said}; see docs/object-storage.md") from None


def _check_endpoints(environment: Mapping[str, str]) -> None:
    """Raise a ConfigError for what the client would end the process by."""
    for name in _ENDPOINTS:
        value = environment.get(name) or "http://none"
        if not re.fullmatch(r"https?://[!-~]+", value):
            raise ConfigError(f"{name}={redacted(value)!r} must be http://… or https://…")


def _is_plain(environment: Mapping[str, str]) -> bool:
    """Return whether an endpoint is named that has no TLS: a server of one's own."""
    named = (environment.get(name, "") for name in _ENDPOINTS)
    return any(value.startswith("http://") for value in named)


def _from_profile(environment: Mapping[str, str]) -> dict[str, str]:
    """Return keys and region of the user's profile, as all tools of Amazon read them, if none stand
    in the environment, which obstore reads itself."""
    if any(environment.get(name) for name in _HELD):
        return {}
    profile = environment.get("AWS_PROFILE") or "default"
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials", profile)
    name = profile if profile == "default" else f"profile {profile}"
    config = _section(environment.get("AWS_CONFIG_FILE") or "~/.aws/config", name)
    given = any(environment.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    found = {
        "access_key_id": keys.get("aws_access_key_id"),
        "secret_access_key": keys.get("aws_secret_access_key"),
        "session_token": keys.get("aws_session_token"),
        "region": None if given else config.get("region"),
    }
    return {key: value for key, value in found.items() if value}


def _section(name: str, section: str) -> Mapping[str, str]:
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read(Path(os.path.expanduser(name)), encoding="utf-8")
    except (OSError, ValueError, configparser.Error):
        return {}
    return dict(parser[section]) if parser.has_section(section) else {}
