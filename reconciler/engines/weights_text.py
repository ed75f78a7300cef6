"""What a text under `weights:` looks like that leads nowhere."""

from collections.abc import Iterator
from pathlib import Path

from reconciler.core.launch import LaunchSpec


def of_hub(spec: LaunchSpec) -> Iterator[str]:
    """Yield a sentence if the weights look like a model's name on a hub (`owner/name`) and are nowhere. Reads folders.

    A path that leads into a folder that is there is more likely misspelt.
    """
    if spec.weights is None:
        return
    path = Path(spec.weights)
    owner = path.parent
    is_name = path.name and owner.name and path.suffix not in (".bin", ".gguf", ".pth", ".safetensors")
    if is_name and not owner.exists() and owner.parent.is_dir():
        name = f"{owner.name}/{path.name}"
        yield f"If {name} is a model on a hub: names are not looked up there; download it, and state its folder"
