"""Bytes from a keyboard as names of keys."""

from __future__ import annotations

import codecs

_ESC = 0x1B
_LONGEST_SEQUENCE = 32  # bytes; what is longer is no key

_CONTROLS = {
    0x01: "home",  # as a shell's line editor has it
    0x05: "end",
    0x08: "backspace",
    0x09: "tab",
    0x0A: "enter",
    0x0C: "redraw",
    0x0D: "enter",
    0x15: "kill-line",
    0x17: "kill-word",
    0x7F: "backspace",
}
_FINALS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "F": "end",
    "H": "home",
    "M": "enter",  # of the keypad, as SS3
}
_NUMBERED = {
    "1": "home",
    "3": "delete",
    "4": "end",
    "5": "page-up",
    "6": "page-down",
    "7": "home",
    "8": "end",
}


class KeyDecoder:
    """Turns what was read into keys, across reads that cut a sequence in two.

    A key is the name of a special one (`up`, `enter`, `esc`, `page-down`) or the character that
    was typed, the blank included. Unknown sequences and control characters are dropped.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def is_waiting(self) -> bool:
        """Whether an escape sequence has begun: without more bytes soon, `flush` it."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete now."""
        rest = self._pending + data
        self._pending = b""
        keys: list[str] = []
        while rest:
            if rest[0] != _ESC:
                keys += self._plain(rest[0])
                rest = rest[1:]
                continue
            end, key = _sequence(rest)
            if not end:
                self._pending = rest
                break
            keys += key
            rest = rest[end:]
        return keys

    def flush(self) -> list[str]:
        """What has begun, taken for the lone Esc it turned out to be."""
        begun, self._pending = self._pending, b""
        return ["esc"] if begun else []

    def _plain(self, byte: int) -> list[str]:
        if byte in _CONTROLS:
            return [_CONTROLS[byte]]
        text = self._text.decode(bytes((byte,)))
        return [ch for ch in text if ch.isprintable() and ch != "\ufffd"]


def _sequence(data: bytes) -> tuple[int, list[str]]:
    """The length of the sequence that `data` begins with, 0 when it is not all there; its key."""
    if len(data) == 1:
        return 0, []
    if data[1:2] == b"O":
        if len(data) == 2:
            return 0, []
        return 3, _known(_FINALS.get(chr(data[2])))
    if data[1:2] != b"[":
        # Esc, and then another key: a slow line may deliver both at once.
        return 1, ["esc"]
    if data[2:3] == b"[":  # F1 to F5 of the Linux console
        return (4, []) if len(data) > 3 else (0, [])
    for end in range(2, min(len(data), _LONGEST_SEQUENCE)):
        byte = data[end]
        if 0x40 <= byte <= 0x7E:
            return end + 1, _known(_csi(data[2:end].decode("ascii"), chr(byte)))
        if not 0x20 <= byte <= 0x3F:
            return end, []  # broken off by something else, which counts by itself
    return (0, []) if len(data) < _LONGEST_SEQUENCE else (_LONGEST_SEQUENCE, [])


def _csi(parameters: str, final: str) -> str | None:
    if final == "~":
        return _NUMBERED.get(parameters.partition(";")[0])
    return _FINALS.get(final) if final != "M" else None


def _known(key: str | None) -> list[str]:
    return [] if key is None else [key]
