"""How large the state of a layer is that keeps one of fixed size: delta nets, Mamba, short convolutions.

Elements are charged as f32 (4 bytes), as llama.cpp and MLX keep the recurrent part; the part for the convolution,
which some keep in the model's own type but one column longer, is then not below theirs.
"""

from reconciler.memory.hf.keys import Keys


def state_elements(keys: Keys) -> int:
    """Return the f32 elements one layer keeps for each slot. Raises `ShapeUnknown`.

    Convolution and recurrent part, as in llama.cpp: (kernel - 1) * (inner + 2 * groups * state) + inner * state.
    """
    if keys.has("linear_num_value_heads"):
        return _delta_net(keys)
    if keys.has("conv_L_cache"):
        return max(0, keys.number("conv_L_cache") - 1) * keys.number("hidden_size")
    inner = _inner(keys)
    state = keys.number("mamba_d_state", "ssm_state_size", "state_size")
    groups = keys.or_zero("mamba_n_groups", "n_groups")
    kernel = keys.number("mamba_d_conv", "conv_kernel")
    return max(0, kernel - 1) * (inner + 2 * groups * state) + inner * state


def _delta_net(keys: Keys) -> int:
    key_heads, value_heads = keys.number("linear_num_key_heads"), keys.number("linear_num_value_heads")
    key, value = keys.number("linear_key_head_dim"), keys.number("linear_value_head_dim")
    kernel = keys.number("linear_conv_kernel_dim")
    width = 2 * key_heads * key + value_heads * value
    return max(0, kernel - 1) * width + value_heads * key * value


def _inner(keys: Keys) -> int:
    """Return the width inside a Mamba layer, however the configuration says it."""
    if stated := keys.optional("mamba_d_ssm"):
        return stated
    heads = keys.optional("mamba_n_heads", "mamba_num_heads")
    # "auto" is a length that follows from the width.
    if heads and keys.values.get("mamba_d_head") != "auto" and keys.has("mamba_d_head", "mamba_head_dim"):
        return heads * keys.number("mamba_d_head", "mamba_head_dim")
    if keys.text("model_type") == "mamba2":
        return keys.number("num_heads") * keys.number("head_dim")
    if keys.text("model_type") in ("mamba", "falcon_mamba") and keys.has("intermediate_size"):
        return keys.number("intermediate_size")
    return keys.number("mamba_expand", "expand") * keys.number("hidden_size")
