"""The keys of a header with their values. Large values are passed over: no estimate needs them."""

import struct
from typing import Final

from reconciler.memory.gguf.header import Array, Scalar, Value
from reconciler.memory.gguf.notes import Notes
from reconciler.memory.gguf.reader import LONGEST_HEADER, Reader, WeightsError, damaged, shown, truncated

_TEXT: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
#: Value type number: how one is packed.
_NUMBERS: Final = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    _BOOL: struct.Struct("<B"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_KIND: Final = struct.Struct("<I")
#: Bytes of a key, by the format's own rule.
_LONGEST_KEY: Final = 65535
#: Bytes of a text that is kept: chat templates are the longest that matter. Whole tokenizers are passed over.
_LONGEST_TEXT: Final = 64 << 10
#: Numbers of one array that are kept (they come one for each layer), and of all arrays together.
KEPT_ITEMS: Final = 4096
_ALL_KEPT_ITEMS: Final = 1 << 18
#: What passing an array costs, in passed texts.
_ARRAY_STEPS: Final = 16
#: Arrays in arrays; no known file has any.
_DEEPEST: Final = 4


def read_keys(reader: Reader, count: int, notes: Notes) -> dict[str, Value]:
    """Return `count` keys. Raises `WeightsError`."""
    values = _Values(reader, notes)
    keys: dict[str, Value] = {}
    for _ in range(count):
        key = notes.decode(reader.text(_LONGEST_KEY, "a key"), "a key")
        if not key or key in keys:
            raise damaged(f"two keys {shown(key)}" if key else "a key without name")
        value = values.read(key)
        if value is not None:
            keys[key] = value
    return keys


class _Values:
    """Reads values, and counts what is kept of them all."""

    def __init__(self, reader: Reader, notes: Notes) -> None:
        self._reader = reader
        self._notes = notes
        self._items = 0

    def read(self, key: str) -> Value | None:
        """Return the value of `key`, or None if it is a text too long to be kept."""
        kind = self._kind()
        if kind == _TEXT:
            return self._text(key)
        if kind == _ARRAY:
            return self._array(key, 1)
        layout = _NUMBERS.get(kind)
        if layout is None:
            raise damaged(f"key {shown(key)} has value type {kind}, which is not known")
        (number,) = self._reader.unpack(layout)
        return bool(number) if kind == _BOOL else number

    def _kind(self) -> int:
        return int(self._reader.unpack(_KIND)[0])

    def _text(self, key: str) -> str | None:
        reader = self._reader
        count = reader.peek_length()
        if count > _LONGEST_TEXT:
            reader.skip_texts(1)
            self._notes.add(f"the text of key {shown(key)} is passed over: {count} bytes")
            return None
        return self._notes.decode(reader.text(_LONGEST_TEXT, "a text"), f"key {shown(key)}")

    def _array(self, key: str, depth: int) -> Array:
        reader = self._reader
        kind, count = self._kind(), reader.length()
        layout = _NUMBERS.get(kind)
        if layout is not None:
            return self._number_array(key, kind, layout, count)
        # Each takes at least a length: a count that the file cannot hold is refused before anything is walked.
        if count * 8 > reader.left:
            raise _too_many(key, count)
        if kind == _TEXT:
            reader.skip_texts(count)
        elif kind != _ARRAY:
            raise damaged(f"key {shown(key)} lists values of unknown type {kind}")
        elif depth >= _DEEPEST:
            raise damaged(f"key {shown(key)} has arrays more than {_DEEPEST} deep")
        else:
            reader.walk(count * _ARRAY_STEPS)
            for _ in range(count):
                self._array(key, depth + 1)
        return Array(count)

    def _number_array(self, key: str, kind: int, layout: struct.Struct, count: int) -> Array:
        reader = self._reader
        size = count * layout.size
        if size > reader.left:
            raise _too_many(key, count)
        if count > KEPT_ITEMS:
            reader.skip(size)
            return Array(count)
        self._items += count
        if self._items > _ALL_KEPT_ITEMS:
            raise damaged(f"more than {_ALL_KEPT_ITEMS} numbers in short arrays")
        packed = reader.take(size)
        numbers = struct.unpack(f"<{count}{layout.format[-1:]}", packed)
        items: tuple[Scalar, ...] = tuple(map(bool, numbers)) if kind == _BOOL else numbers
        return Array(count, items)


def _too_many(key: str, count: int) -> WeightsError:
    what = f"key {shown(key)} has {count} items, more than the file holds"
    return damaged(what) if count > LONGEST_HEADER else truncated(what)
