"""Language models: folders that build() or `tscompile build` make, at work."""
from __future__ import annotations

import collections
import json
import numbers
import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from tscompile import _core


class LanguageModel:
    """A folder that serves texts. Any number of threads may ask it for some: they run together.

    `tokenizer` is a file, where the folder has none. `time_limit` and `memory_limit` are of each step.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        tokenizer: str | os.PathLike[str] = "",
        plugins: Iterable[str | os.PathLike[str]] = (),
        threads: int = 0,
        time_limit: float | str | None = None,
        memory_limit: int | str | None = None,
    ):
        self._core = _core.load_texts(
            os.fspath(folder), os.fspath(tokenizer), [os.fspath(p) for p in plugins], threads, time_limit, memory_limit
        )
        self._lock = threading.Lock()
        self._mail: dict[int, collections.deque[dict[str, Any]]] = {}

    def generate(self, prompt: Any, **settings: Any) -> Any:
        """What follows a prompt: a text, or a list of tokens; of a list of prompts a list, which run together.

        `settings` are those of a request of `tscompile generate`: max_new_tokens=20, top_k=5, seed=1, stop=["\\n"].
        Gives dicts with "tokens", "text", "finished" ("end", "length", "stop", "cancelled", "failed") and more.
        """
        several = isinstance(prompt, (list, tuple)) and not all(isinstance(t, numbers.Integral) for t in prompt)
        asked = []
        try:
            for p in prompt if several else [prompt]:
                asked.append(self._ask(p, settings))
            results = [collections.deque(self._events(n), maxlen=1)[0] for n in asked]
        finally:
            self._forget(asked)
        return results if several else results[0]

    def stream(self, prompt: Any, **settings: Any) -> Iterator[dict[str, Any]]:
        """The same token by token: dicts with "token", "text" and "ms", and at last what generate() gives.

        Who stops to ask for more, and closes or forgets the iterator, ends the text.
        """
        return self._stream(self._ask(prompt, settings))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        with self._lock:
            return self._core.encode(text)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        with self._lock:
            return self._core.decode(list(tokens))

    @property
    def settings(self) -> dict[str, str]:
        """What it was built with."""
        return self._core.settings

    @property
    def vocabulary_size(self) -> int:
        return self._core.vocabulary_size

    def _ask(self, prompt: Any, settings: dict[str, Any]) -> int:
        given = {"prompt": prompt} if isinstance(prompt, str) else {"prompt_ids": [int(t) for t in prompt]}
        with self._lock:
            number = self._core.add(json.dumps({**given, **settings}))
            self._mail[number] = collections.deque()
        return number

    def _stream(self, number: int) -> Iterator[dict[str, Any]]:
        try:
            yield from self._events(number)
        finally:
            self._forget([number])

    def _events(self, number: int) -> Iterator[dict[str, Any]]:
        mail = self._mail[number]
        while True:
            while not mail:
                with self._lock:
                    if not mail:  # another thread may have brought some
                        self._step()
            event = mail.popleft()
            event.pop("schema")
            yield event
            if "finished" in event:
                return

    def _step(self) -> None:
        for line in self._core.step():
            event = json.loads(line)
            if event["prompt"] in self._mail:
                self._mail[event["prompt"]].append(event)

    def _forget(self, numbers: list[int]) -> None:
        with self._lock:
            for number in numbers:
                self._core.cancel(number)
                self._mail.pop(number, None)

    def __repr__(self) -> str:
        return f"tscompile.LanguageModel({self.vocabulary_size} tokens, max_seq_len={self.settings.get('max_seq_len')})"
