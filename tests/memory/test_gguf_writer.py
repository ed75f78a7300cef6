"""Files that the `gguf` package writes are read back as they were meant."""

import tempfile
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.memory.gguf import Array, Header, Scalar, find_weights, read_header
from reconciler.memory.gguf.types_table import BLOCKS
from tiny_gguf import write_llama

#: GGML's own figure where the package has an older one: 32 bytes of numbers and two half floats.
Q8_1 = 36
TYPES = [kind for kind in gguf.GGML_QUANT_SIZES if kind != gguf.GGMLQuantizationType.Q8_1]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
INT = gguf.GGUFValueType.INT64
SCALARS = {
    gguf.GGUFValueType.UINT8: st.integers(0, 2**8 - 1),
    gguf.GGUFValueType.INT16: st.integers(-(2**15), 2**15 - 1),
    gguf.GGUFValueType.UINT32: st.integers(0, 2**32 - 1),
    gguf.GGUFValueType.INT64: st.integers(-(2**63), 2**63 - 1),
    gguf.GGUFValueType.UINT64: st.integers(0, 2**64 - 1),
    gguf.GGUFValueType.FLOAT32: st.floats(width=32, allow_nan=False),
    gguf.GGUFValueType.FLOAT64: st.floats(allow_nan=False),
    gguf.GGUFValueType.BOOL: st.booleans(),
    gguf.GGUFValueType.STRING: st.text(st.characters(codec="utf-8"), max_size=50),
}
KEYS = st.dictionaries(
    NAMES.filter(lambda name: not name.startswith("general.")),
    st.one_of(
        *(st.tuples(st.just(kind), values) for kind, values in SCALARS.items()),
        st.tuples(
            st.just(gguf.GGUFValueType.ARRAY), st.lists(st.integers(-9, 2**40), min_size=1, max_size=9)
        ),
    ),
    max_size=8,
)
TENSORS = st.dictionaries(
    NAMES.filter(lambda name: len(name.encode()) < 64),
    st.tuples(st.sampled_from(TYPES), st.integers(1, 3), st.lists(st.integers(1, 4), max_size=3)),
    max_size=8,
)


def write(
    path: Path,
    keys: dict[str, tuple[gguf.GGUFValueType, Scalar | list[int]]],
    tensors: dict[str, tuple[gguf.GGMLQuantizationType, int, list[int]]],
    alignment: int,
) -> None:
    """Write tensors of one byte pattern; `tensors` gives type, blocks in a row, and the further axes, slowest first."""
    writer = gguf.GGUFWriter(str(path), "test")
    writer.add_custom_alignment(alignment)
    for key, (kind, value) in keys.items():
        writer.add_key_value(key, value, kind, sub_type=INT if isinstance(value, list) else None)
    for name, (packing, blocks, axes) in tensors.items():
        packed = np.full((*axes, blocks * BLOCKS[packing][1]), 7, dtype=np.uint8)
        writer.add_tensor(name, packed, raw_dtype=packing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@settings(max_examples=150, deadline=None)
@given(keys=KEYS, tensors=TENSORS, alignment=st.sampled_from([8, 32, 4096]))
def test_what_is_written_is_read_back(
    keys: dict[str, tuple[gguf.GGUFValueType, Scalar | list[int]]],
    tensors: dict[str, tuple[gguf.GGMLQuantizationType, int, list[int]]],
    alignment: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write(path, keys, tensors, alignment)
        found = read_header(path)
        raw = path.read_bytes()
    expected = {
        key: Array(len(value), tuple(value)) if isinstance(value, list) else value
        for key, (_, value) in keys.items()
    }
    assert found.keys == {"general.architecture": "test", "general.alignment": alignment, **expected}
    assert found.oddities == ()
    assert [tensor.name for tensor in found.tensors] == list(tensors)
    for tensor in found.tensors:
        kind, blocks, axes = tensors[tensor.name]
        length, size = gguf.GGML_QUANT_SIZES[kind]
        assert tensor.type == kind
        assert tensor.shape == (blocks * length, *reversed(axes))
        assert tensor.size == blocks * size * int(np.prod(axes))
        begin = found.data_offset + tensor.offset
        assert raw[begin : begin + tensor.size] == b"\x07" * tensor.size


def test_all_types_of_the_package_are_known() -> None:
    theirs = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    theirs[int(gguf.GGMLQuantizationType.Q8_1)] = (32, Q8_1)
    missing = {kind: BLOCKS.get(kind) for kind, sizes in theirs.items() if BLOCKS.get(kind) != sizes}
    assert missing == {}


def same_as_theirs(path: Path, found: Header) -> None:
    reader = gguf.GGUFReader(path)
    theirs = [
        (t.name, tuple(map(int, t.shape)), int(t.tensor_type), int(t.n_bytes), int(t.data_offset))
        for t in reader.tensors
    ]
    assert [(t.name, t.shape, t.type, t.size, found.data_offset + t.offset) for t in found.tensors] == theirs
    assert set(found.keys) == {key for key in reader.fields if not key.startswith("GGUF.")}
    for key, value in found.keys.items():
        stated = reader.fields[key].contents()
        if not isinstance(value, Array):
            assert stated == pytest.approx(value), key
        elif value.items:
            assert tuple(stated) == value.items, key
        else:
            assert len(stated) == value.count, key


def test_a_small_model_reads_as_in_the_package(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf")
    same_as_theirs(path, read_header(path))


def test_a_set_split_by_the_package(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "test", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t{i}", np.ones((2, 32), dtype=np.float16))
    writer.write_header_to_file(tmp_path / "m.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = find_weights(tmp_path / "m-00001-of-00003.gguf")
    assert [tensor.name for tensor in found.header.tensors] == [f"t{i}" for i in range(5)]
    assert found.tensor_bytes == 5 * 2 * 32 * 2
    assert len(found.files) == 3
