"""The binary, and its answers."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Sequence, Union

PathLike = Union[str, "os.PathLike[str]"]


class BenchtrailError(RuntimeError):
    """An error of the binary.

    ``code`` is its exit code: 2 for a wrong argument, 3 for a damaged store, 4 if this machine lacks
    something, 5 if nothing matches, 6 if the data cannot decide. ``hint`` is the remedy, if there is one.
    """

    def __init__(self, message: str, hint: str | None, code: int) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint
        self.code = code


def binary() -> str:
    """Returns the path of the binary: ``$BENCHTRAIL_BINARY``, the one in this environment, or the one on the path."""
    given = os.environ.get("BENCHTRAIL_BINARY")
    if given:
        return given
    beside = Path(sysconfig.get_path("scripts")) / "benchtrail"
    if beside.is_file():
        return str(beside)
    found = shutil.which("benchtrail")
    if found is None:
        raise BenchtrailError(
            "the binary `benchtrail` is not installed here",
            "install the wheel of benchtrail, which contains it, or set BENCHTRAIL_BINARY to its path",
            4,
        )
    return found


def version() -> str:
    """Returns the version of the binary."""
    return run(["--version"]).decode().split()[-1]


def run(arguments: Sequence[PathLike], ok: Sequence[int] = (0,)) -> bytes:
    """Runs the binary and returns its standard output.

    Raises BenchtrailError if it ends with a code that is not in ``ok``.
    """
    program = binary()
    command = [program, *(os.fspath(a) for a in arguments)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except ValueError as error:
        # UnicodeError is a ValueError.
        hint = "leave out the character U+0000 and halves of surrogate pairs"
        raise BenchtrailError(f"no program can be given this text: {error}", hint, 2) from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            hint = "write a shorter query; the system takes about 128 KiB for one argument"
            raise BenchtrailError("a text is too long to be given to a program", hint, 2) from error
        hint = "set BENCHTRAIL_BINARY to the path of the binary `benchtrail`, or remove it"
        raise BenchtrailError(f"{program} cannot be started: {error.strerror}", hint, 4) from error
    if done.returncode in ok:
        return done.stdout
    message, advice = _told(done.stderr.decode(errors="replace"))
    raise BenchtrailError(message, advice, done.returncode)


def ask(arguments: Sequence[PathLike]) -> Any:
    """Runs the binary with ``--json`` and returns the document."""
    return json.loads(run([arguments[0], "--json", *arguments[1:]]))


def _told(text: str) -> tuple[str, str | None]:
    lines = [line for line in text.strip().splitlines() if line]
    hints = [line[len("hint: ") :] for line in lines if line.startswith("hint: ")]
    rest = [line for line in lines if not line.startswith("hint: ")]
    message = "\n".join(rest) or "the command failed and said nothing"
    return message.removeprefix("error: "), hints[0] if hints else None
