"""Mutations of files for fuzzing: of bytes, of JSON values, and of lines; all from one seed."""

from __future__ import annotations

import json
import random
from typing import Any

CODE = 'own; }; int x = system("true"); struct Y { int z'
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, -64, 3, 4, 8, 64, 1 << 31, 1 << 63, 10**30, 0.5, 1e308, -0.0, float("nan"),
    float("inf"), "", "4", "x" * 300, CODE, "../../etc/passwd", "/etc/passwd", "a/b", ".", "\x00", "\x1b[2J", "\ud800",
    "é", [], [[]], {}, {"a": 1}, [1, "a", None], "simd", "ring", "vendor", "none", "rotate", "row", "float64", "gram",
]  # fmt: skip
WORDS = [
    b"-1", b"0", b"1", b"2", b"3.5", b"999999999999999999999", b"1e999", b"nan", b" ", b"\n", b"%", b"\0", b"\xff",
    b"x", b"1 1 1\n",
]  # fmt: skip


class Mutator:
    """A source of mutations."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, value: Any) -> Any:
        """A JSON value in which something was replaced, taken away or added."""
        if isinstance(value, dict) and value and self.random.random() < 0.9:
            return self._object(dict(value))
        if isinstance(value, list) and value and self.random.random() < 0.7:
            place = self.random.randrange(len(value))
            return [*value[:place], self.value(value[place]), *value[place + 1 :]]
        return self.random.choice(VALUES)

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        name, what = self.random.choice(list(value)), self.random.random()
        if what < 0.75:
            value[name] = self.value(value[name])
        elif what < 0.85:
            del value[name]
        elif what < 0.95:
            value[self.random.choice(["GONE", "", CODE, "VARIANT", "__class__", "K"])] = self.random.choice(VALUES)
        else:
            value = dict(self.random.sample(list(value.items()), len(value)))
        return value

    def json(self, text: str) -> bytes:
        """A JSON text after one to three mutations of its values, or of its bytes."""
        if self.random.random() < 0.3:
            return self.bytes(text.encode())
        value = json.loads(text)
        for _ in range(self.random.randint(1, 3)):
            value = self.value(value)
        return json.dumps(value).encode()

    def bytes(self, content: bytes) -> bytes:
        """Bytes after one to four mutations: changed, cut, repeated, moved, or with a word in between."""
        for _ in range(self.random.randint(1, 4)):
            place, end = sorted(self.random.randrange(len(content) + 1) for _ in range(2))
            what = self.random.randrange(7)
            if what == 0:
                content = content[:place]
            elif what == 1:
                content = content[:place] + content[end:]
            elif what == 2:
                content = content[:place] + content[place:end] * 3 + content[end:]
            elif what == 3:
                content = content[:place] + self.random.choice(WORDS) + content[place:]
            elif what == 4 and place < len(content):
                content = content[:place] + bytes([self.random.randrange(256)]) + content[place + 1 :]
            elif what == 5:
                content = content[end:] + content[:place]
            else:
                content = content[:place] + self.random.choice(WORDS) + content[end:]
            content = content[: 1 << 17]
        return content

    def lines(self, content: bytes) -> bytes:
        """A text of lines in which lines, or words of the first ones, were changed."""
        lines = content.split(b"\n")
        for _ in range(self.random.randint(1, 3)):
            number = self.random.randrange(min(len(lines), self.random.choice([3, 8, len(lines)])))
            words = lines[number].split(b" ")
            words[self.random.randrange(len(words))] = self.random.choice(WORDS)
            lines[number] = b" ".join(words)
        return b"\n".join(lines) if self.random.random() < 0.7 else self.bytes(b"\n".join(lines))
