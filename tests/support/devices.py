"""Tests that need so many devices, or several processes: scripts of their own, since the number of
devices must be known before jax starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence


def start(script: str, devices: int, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start a script with so many simulated devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-W", "error", script, *arguments],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> str:
    """The last line that it prints."""
    try:
        stdout, stderr = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, stderr[-4000:]
    return stdout.splitlines()[-1]


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
