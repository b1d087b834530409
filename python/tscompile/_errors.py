"""What goes wrong, as exceptions with a place."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Something was rejected or failed. `code` says what kind of thing; `str()` is what the command line tool prints.

    `message`, `file`, `line`, `column`, `end_line`, `end_column`, `notes` are those of the first error; lines and columns
    count from 1, and are None where there are none. `problems` has them for all that was reported, as dicts.
    """

    code = "input"

    def __init__(self, text: str, problems: list[dict[str, Any]]):
        super().__init__(text)
        self.problems = problems
        first = next((p for p in problems if p["severity"] == "error"), {})
        self.message: str = first.get("message", text)
        self.file: str | None = first.get("file")
        self.line: int | None = first.get("line")
        self.column: int | None = first.get("column")
        self.end_line: int | None = first.get("end_line")
        self.end_column: int | None = first.get("end_column")
        self.notes: list[str] = first.get("notes", [])

    def __reduce__(self):
        return type(self), (str(self), self.problems)


class InputError(Error, ValueError):
    """The text, the weights, or an input of a call is wrong."""


class UnsupportedError(Error, NotImplementedError):
    """An operator or feature that tscompile does not have."""

    code = "unsupported"


class IoError(Error, OSError):
    """A file cannot be read or written."""

    code = "io"


class LimitError(Error):
    """A limit was reached: of a file, of memory or time of a run."""

    code = "limit"


class IncompatibleError(Error):
    """An engine file of another version, or for another processor."""

    code = "incompatible"


class ModelError(Error, RuntimeError):
    """The model failed while it ran."""

    code = "model"


class Interrupted(Error):
    """A run was stopped."""

    code = "interrupted"


_BY_CODE = {c.code: c for c in (InputError, UnsupportedError, IoError, LimitError, IncompatibleError, ModelError, Interrupted)}


def make(code: str, text: str, problems: list[dict[str, Any]]) -> Error:
    return _BY_CODE.get(code, Error)(text, problems)
