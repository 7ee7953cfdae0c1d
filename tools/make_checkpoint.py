#!/usr/bin/env python3
"""Writes a random qwen4_exp checkpoint in the MLX 4-bit layout, for tests.

    make_checkpoint.py GEOMETRY.json DIR [--seed N] [--record]

The same description gives the same bytes everywhere: random numbers come from splitmix64, and only
operations that IEEE 754 rounds exactly (no exp, log or sums of library routines) touch them. DIR
receives config.json, model-0000i-of-0000n.safetensors with their index, and mtp.safetensors.

GEOMETRY.json is an object of these keys, all optional:

  text_config         keys of config.json's text_config that differ from TEXT_DEFAULTS; null leaves
                      a key out of config.json
  vision_config       keys that differ from VISION_DEFAULTS; without it there is no vision tower
  seed                of the weights (0)
  draft_head          false: no mtp.safetensors (true)
  shards              number of model files (2)
  group_size          weights that share a scale (64)
  group_sizes         {part of a module's name: group size}, the first that matches wins
                      ({"ngram_embedding": 32})
  zero_centred_norms  which files store norm weights as w where the model multiplies by 1 + w:
                      any of "model", "mtp"; the others store 1 + w ([])
  misaligned          true: headers of odd length, so that no tensor lies at an even offset (false)
  sha256              {file: digest} to check what was written against; --record writes it

Weights are such that every mechanism shows in the logits: router logits of standard deviation near
2, gates away from 1/2, decays from nearly none to nearly all, n-gram convolution not zero. Pieces
of one quantized module (weight, scales, biases) lie in different files here and there, as they do
in published checkpoints.
"""

import argparse
import hashlib
import json
import math
import pathlib
import struct
import sys

import numpy as np

TEXT_DEFAULTS = {
    "model_type": "qwen4_exp_text",
    "vocab_size": 256,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "full_attention_interval": 4,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "dtype": "bfloat16",
    "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "partial_rotary_factor": 0.25,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000.0,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [3, 3, 2],
    },
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 32,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "output_gate_type": "sigmoid",
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "hc_count": 4,
    "hc_lowrank": 64,
    "ple_layer_ids": [2],
    "ple_embed_dim": 512,
    "ple_conv_kernel_size": 4,
    "ngram_size": 3,
    "heads_per_ngram": 8,
    "ngram_vocab_size_base": 200,
    "make_ngram_vocab_size_divisible_by": 128,
    "split_ngram_parts": 4,
    "seed": 1234,
    "mtp_num_hidden_layers": 1,
}

VISION_DEFAULTS = {
    "model_type": "qwen4_exp_vision",
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 8,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 16,
    "hidden_act": "gelu_pytorch_tanh",
}

# Special ids stand at the end of the vocabulary: its size less these.
SPECIAL_IDS = {
    "image_token_id": 11,
    "video_token_id": 10,
    "vision_start_token_id": 9,
    "vision_end_token_id": 8,
}
END_OF_TEXT = 12

GEOMETRY_KEYS = {
    "description", "text_config", "vision_config", "seed", "draft_head", "shards", "group_size",
    "group_sizes", "zero_centred_norms", "misaligned", "sha256",
}  # fmt: skip

MASK64 = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15


# --- Random numbers ------------------------------------------------------------------------------


def splitmix64(state):
    """The output of splitmix64 whose state was `state` before the call; also on uint64 arrays."""
    if isinstance(state, int):
        z = (state + GOLDEN_GAMMA) & MASK64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)
    z = state + np.uint64(GOLDEN_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Random:
    """Numbers that depend on the seed and a tensor's name only, not on what was drawn before."""

    def __init__(self, seed):
        self.seed = seed

    def words(self, name, count):
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        start = np.uint64(int.from_bytes(digest[:8], "little"))
        return splitmix64(start + np.arange(count, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA))

    def uniform(self, name, shape, low, high):
        unit = (self.words(name, math.prod(shape)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return (low + (high - low) * unit).reshape(shape)

    def bell(self, name, shape):
        """Mean 0, standard deviation 1, nearly normal: the sum of four 16-bit numbers, within
        +-3.46. (A true normal would need log and cos, whose last bits differ among libraries.)"""
        words = self.words(name, math.prod(shape))
        total = np.zeros(words.shape, np.uint64)
        for shift in (0, 16, 32, 48):
            total += (words >> np.uint64(shift)) & np.uint64(0xFFFF)
        mean = 4 * 65535 / 2
        deviation = 37837.227  # sqrt(4 (65536^2 - 1) / 12)
        return ((total.astype(np.float64) - mean) / deviation).reshape(shape)


# --- Formats -------------------------------------------------------------------------------------


def to_bf16(values):
    """The bits of the nearest bfloat16, ties to even."""
    bits = np.asarray(values, np.float64).astype(np.float32).view(np.uint32).astype(np.uint64)
    rounding = np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))
    return ((bits + rounding) >> np.uint64(16)).astype(np.uint16)


def quantize(values, group):
    """MLX's affine quantizer, 4 bits: (packed uint32, scales, biases), the latter as bf16 bits."""
    *rows, width = values.shape
    w = values.reshape(*rows, width // group, group)
    low, high = w.min(-1), w.max(-1)
    low_is_larger = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / 15.0, 1e-7)
    scale = np.where(low_is_larger, scale, -scale)
    edge = np.where(low_is_larger, low, high)
    q0 = np.rint(edge / scale)
    scale = np.where(q0 != 0, edge / np.where(q0 != 0, q0, 1.0), scale)
    bias = np.where(q0 != 0, edge, 0.0)
    q = np.clip(np.rint((w - bias[..., None]) / scale[..., None]), 0, 15).astype(np.uint32)
    q = q.reshape(*rows, width // 8, 8)
    packed = np.zeros((*rows, width // 8), np.uint32)
    for j in range(8):  # lowest nibble first
        packed |= q[..., j] << np.uint32(4 * j)
    return packed, to_bf16(scale), to_bf16(bias)


SAFETENSORS_DTYPES = {"uint32": "U32", "uint16": "BF16", "int64": "I64"}


def write_safetensors(path, tensors, misaligned):
    header = {"__metadata__": {"format": "mlx"}}
    offset = 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": SAFETENSORS_DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + (1 if misaligned else 0))
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            f.write(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())


# --- n-gram hash constants -----------------------------------------------------------------------


def primes_from(start):
    n = max(start, 2)
    while True:
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            yield n
        n += 1


def ngram_hash(config, index):
    """Multipliers, head sizes and head offsets of the index-th n-gram layer."""
    heads = (config["ngram_size"] - 1) * config["heads_per_ngram"]
    primes = primes_from(config["ngram_vocab_size_base"])
    sizes = [next(primes) for _ in range((index + 1) * heads)][index * heads :]
    offsets = [sum(sizes[:h]) for h in range(heads)]
    half = max(1, (2**63 - 1) // config["vocab_size"] // 2)
    base = config["seed"] + 10007 * index
    multipliers = [
        2 * (splitmix64((base + GOLDEN_GAMMA * (j + 1)) & MASK64) % half) + 1
        for j in range(config["ngram_size"])
    ]
    return multipliers, sizes, offsets


# --- The inventory -------------------------------------------------------------------------------


class TensorFile:
    """Tensors of one file set, "model" or "mtp", by name."""

    def __init__(self, geometry, kind):
        self.tensors = {}
        self.group_overrides = {}  # module -> group size other than the default
        self._random = Random(geometry.get("seed", 0))
        self._default_group = geometry.get("group_size", 64)
        self._groups = geometry.get("group_sizes", {"ngram_embedding": 32})
        self._norm_offset = 0.0 if kind in geometry.get("zero_centred_norms", []) else 1.0

    def quantized(self, module, shape, gain=1.0):
        """A 4-bit matrix [..., out, in]; `gain` times unit inputs is its outputs' deviation."""
        width = shape[-1]
        group = next((g for part, g in self._groups.items() if part in module), self._default_group)
        if width % group or group % 8:
            raise ValueError(f"{module}: {width} inputs do not divide into groups of {group}")
        if group != self._default_group:
            self.group_overrides[module] = group
        values = self._random.bell(module, shape) * (gain / math.sqrt(width))
        packed, scales, biases = quantize(values, group)
        self.tensors[module + ".weight"] = packed
        self.tensors[module + ".scales"] = scales
        self.tensors[module + ".biases"] = biases

    def table(self, module, shape):
        """A 4-bit table of rows with unit values."""
        self.quantized(module, shape, gain=math.sqrt(shape[-1]))

    def dense(self, name, shape, gain=1.0, inputs=None):
        deviation = gain / math.sqrt(inputs or shape[-1])
        self.tensors[name] = to_bf16(self._random.bell(name, shape) * deviation)

    def norm(self, name, size):
        """The weight of a norm that multiplies by 1 + w."""
        values = self._norm_offset + 0.1 * self._random.bell(name, (size,))
        self.tensors[name + ".weight"] = to_bf16(values)

    def plain_norm(self, name, size):
        """The weight of a norm that multiplies by w."""
        self.tensors[name + ".weight"] = to_bf16(1.0 + 0.1 * self._random.bell(name, (size,)))

    def bell(self, name, size, deviation):
        self.tensors[name] = to_bf16(self._random.bell(name, (size,)) * deviation)

    def uniform(self, name, size, low, high):
        self.tensors[name] = to_bf16(self._random.uniform(name, (size,), low, high))

    def integers(self, name, values):
        self.tensors[name] = np.array(values, np.int64)


def add_hyper_connection(file, prefix, c, inject):
    streams, lowrank = c["hc_count"], c["hc_lowrank"]
    width = streams * c["hidden_size"]
    file.norm(f"{prefix}.hc_norm", width)
    # The model divides these products by the number of streams; the gains undo it.
    file.quantized(f"{prefix}.input_mix_weight_down", (lowrank, width), gain=1.0 * streams)
    file.quantized(f"{prefix}.input_mix_weight_up", (width, lowrank))
    if inject:
        file.dense(f"{prefix}.block_inject_weight.weight", (streams, width), gain=1.0 * streams)


def add_linear_attention(file, prefix, c):
    hidden, value_heads = c["hidden_size"], c["linear_num_value_heads"]
    value_width = value_heads * c["linear_value_head_dim"]
    channels = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + value_width
    kernel = c["linear_conv_kernel_dim"]
    file.quantized(f"{prefix}.in_proj_qkv", (channels, hidden), gain=2.0)
    file.quantized(f"{prefix}.in_proj_z", (value_width, hidden), gain=2.0)
    file.dense(f"{prefix}.in_proj_a.weight", (value_heads, hidden), gain=2.0)
    file.dense(f"{prefix}.in_proj_b.weight", (value_heads, hidden), gain=2.0)
    file.dense(f"{prefix}.conv1d.weight", (channels, kernel, 1), inputs=kernel)
    file.uniform(f"{prefix}.A_log", value_heads, low=-4.605, high=2.773)  # ln 0.01 to ln 16
    file.bell(f"{prefix}.dt_bias", value_heads, 1.0)
    file.plain_norm(f"{prefix}.norm", c["linear_value_head_dim"])
    file.quantized(f"{prefix}.out_proj", (hidden, value_width))


def add_sparse_attention(file, prefix, c):
    hidden, head_dim = c["hidden_size"], c["head_dim"]
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    index_dim = c["indexer_head_dim"]
    file.quantized(f"{prefix}.q_proj", (2 * heads * head_dim, hidden), gain=2.0)
    file.quantized(f"{prefix}.k_proj", (kv_heads * head_dim, hidden), gain=2.0)
    file.quantized(f"{prefix}.v_proj", (kv_heads * head_dim, hidden), gain=2.0)
    file.quantized(f"{prefix}.o_proj", (hidden, heads * head_dim), gain=2.0)
    file.norm(f"{prefix}.q_norm", head_dim)
    file.norm(f"{prefix}.k_norm", head_dim)
    file.dense(
        f"{prefix}.indexer.index_qk_proj.weight",
        ((c["indexer_n_heads"] + c["indexer_kv_heads"]) * index_dim, hidden),
    )
    file.norm(f"{prefix}.indexer.q_layernorm", index_dim)
    file.norm(f"{prefix}.indexer.k_layernorm", index_dim)


def add_experts(file, prefix, c):
    hidden, experts, inner = c["hidden_size"], c["num_experts"], c["moe_intermediate_size"]
    shared = c["shared_expert_intermediate_size"]
    # A block's input has a deviation near 1/2 (a mean of gated unit streams): logits near 2.
    file.dense(f"{prefix}.gate.weight", (experts, hidden), gain=4.0)
    file.quantized(f"{prefix}.switch_mlp.gate_proj", (experts, inner, hidden), gain=2.0)
    file.quantized(f"{prefix}.switch_mlp.up_proj", (experts, inner, hidden), gain=2.0)
    file.quantized(f"{prefix}.switch_mlp.down_proj", (experts, hidden, inner))
    file.quantized(f"{prefix}.shared_expert.gate_proj", (shared, hidden), gain=2.0)
    file.quantized(f"{prefix}.shared_expert.up_proj", (shared, hidden), gain=2.0)
    file.quantized(f"{prefix}.shared_expert.down_proj", (hidden, shared))
    file.dense(f"{prefix}.shared_expert_gate.weight", (1, hidden), gain=2.0)


def add_ngram_memory(file, prefix, c, index):
    hidden, streams, embed = c["hidden_size"], c["hc_count"], c["ple_embed_dim"]
    width, kernel = streams * hidden, c["ple_conv_kernel_size"]
    multipliers, sizes, offsets = ngram_hash(c, index)
    divisor, parts = c["make_ngram_vocab_size_divisible_by"], c["split_ngram_parts"]
    rows = -(-sum(sizes) // divisor) * divisor
    if rows % parts or embed % len(sizes):
        raise ValueError(f"{prefix}: {rows} rows in {parts} parts, {embed} values in {len(sizes)}")
    file.quantized(f"{prefix}.key_proj", (width, embed))
    file.quantized(f"{prefix}.value_proj", (hidden, embed))
    for name in ("norm_key", "norm_query", "norm_conv"):
        file.norm(f"{prefix}.{name}", width)
    file.dense(f"{prefix}.conv1d.weight", (width, kernel, 1), inputs=kernel)
    file.integers(f"{prefix}.ple_embedding.layer_multipliers", multipliers)
    file.integers(f"{prefix}.ple_embedding.ngram_heads_vocab_sizes", sizes)
    file.integers(f"{prefix}.ple_embedding.ngram_heads_offsets", offsets)
    for part in range(parts):
        module = f"{prefix}.ple_embedding.ngram_embedding.shard_{part}"
        file.table(module, (rows // parts, embed // len(sizes)))


def add_layer(file, prefix, c, linear):
    add_hyper_connection(file, f"{prefix}.attn_hyper_connection", c, inject=True)
    if linear:
        add_linear_attention(file, f"{prefix}.linear_attn", c)
    else:
        add_sparse_attention(file, f"{prefix}.self_attn", c)
    add_hyper_connection(file, f"{prefix}.mlp_hyper_connection", c, inject=True)
    add_experts(file, f"{prefix}.mlp", c)


def add_text_model(file, c):
    file.table("language_model.model.embed_tokens", (c["vocab_size"], c["hidden_size"]))
    interval = c["full_attention_interval"]
    kinds = c.get("layer_types") or [
        "linear_attention" if (i + 1) % interval else "full_attention"
        for i in range(c["num_hidden_layers"])
    ]
    ngram_layers = sorted(i - 1 for i in c["ple_layer_ids"])
    for i, kind in enumerate(kinds):
        prefix = f"language_model.model.layers.{i}"
        if i in ngram_layers:
            add_ngram_memory(file, f"{prefix}.ple", c, ngram_layers.index(i))
        add_layer(file, prefix, c, linear=kind == "linear_attention")
    add_hyper_connection(file, "language_model.model.hyper_connection_mixer", c, inject=False)
    file.quantized("language_model.lm_head", (c["vocab_size"], c["hidden_size"]), gain=4.0)


def add_draft_head(file, c):
    hidden = c["hidden_size"]
    file.quantized("mtp.fc_embedding", (hidden, hidden))
    file.quantized("mtp.fc_hidden", (hidden, hidden))
    file.norm("mtp.pre_fc_norm_embedding", hidden)
    file.norm("mtp.pre_fc_norm_hidden", c["hc_count"] * hidden)
    for i in range(c["mtp_num_hidden_layers"]):
        add_layer(file, f"mtp.layers.{i}", c, linear=False)
    add_hyper_connection(file, "mtp.hyper_connection_mixer", c, inject=False)


def add_vision_tower(file, v):
    hidden, inner = v["hidden_size"], v["intermediate_size"]
    merged = hidden * v["spatial_merge_size"] ** 2
    patch = (v["in_channels"], v["temporal_patch_size"], v["patch_size"], v["patch_size"])

    def linear(name, outputs, inputs):
        file.dense(f"vision_tower.{name}.weight", (outputs, inputs))
        file.bell(f"vision_tower.{name}.bias", outputs, 0.1)

    def layer_norm(name):
        file.plain_norm(f"vision_tower.{name}", hidden)
        file.bell(f"vision_tower.{name}.bias", hidden, 0.1)

    file.dense(
        "vision_tower.patch_embed.proj.weight", (hidden, *patch), inputs=math.prod(patch)
    )
    file.bell("vision_tower.patch_embed.proj.bias", hidden, 0.1)
    file.dense("vision_tower.pos_embed.weight", (v["num_position_embeddings"], hidden), inputs=1)
    for i in range(v["depth"]):
        layer_norm(f"blocks.{i}.norm1")
        linear(f"blocks.{i}.attn.qkv", 3 * hidden, hidden)
        linear(f"blocks.{i}.attn.proj", hidden, hidden)
        layer_norm(f"blocks.{i}.norm2")
        linear(f"blocks.{i}.mlp.linear_fc1", inner, hidden)
        linear(f"blocks.{i}.mlp.linear_fc2", hidden, inner)
    layer_norm("merger.norm")
    linear("merger.linear_fc1", merged, merged)
    linear("merger.linear_fc2", v["out_hidden_size"], merged)


# --- The directory -------------------------------------------------------------------------------


def complete_configs(geometry):
    """text_config and vision_config (or None) with their defaults; a null stays None."""
    text = TEXT_DEFAULTS | geometry.get("text_config", {})
    text.setdefault("eos_token_id", text["vocab_size"] - END_OF_TEXT)
    text["rope_parameters"] = TEXT_DEFAULTS["rope_parameters"] | text["rope_parameters"]
    text["partial_rotary_factor"] = text["rope_parameters"]["partial_rotary_factor"]
    if not geometry.get("draft_head", True):
        text["mtp_num_hidden_layers"] = 0
    vision = geometry.get("vision_config")
    if vision is not None:
        vision = VISION_DEFAULTS | {"out_hidden_size": text["hidden_size"]} | vision
    return text, vision


def config_json(geometry, text, vision, group_overrides):
    config = {
        "architectures": ["Qwen4ExpForConditionalGeneration"],
        "model_type": "qwen4_exp",
        "tie_word_embeddings": False,
        "text_config": {key: value for key, value in text.items() if value is not None},
    }
    if vision is not None:
        config["vision_config"] = vision
    group = {"group_size": geometry.get("group_size", 64), "bits": 4}
    config["quantization"] = group | {
        # Published files name the modules without this prefix.
        module.removeprefix("language_model."): {"group_size": size, "bits": 4}
        for module, size in sorted(group_overrides.items())
    }
    for key, from_end in SPECIAL_IDS.items():
        config[key] = text["vocab_size"] - from_end
    return json.dumps(config, indent=1) + "\n"


def split_shards(tensors, count):
    """Tensors by name, cut into `count` files of about equal size. The weight of every fifth
    expert projection and n-gram part moves one file on, away from its scales and biases."""
    total = sum(array.nbytes for array in tensors.values())
    shards = [{} for _ in range(count)]
    position = straddling = 0
    for name in sorted(tensors):
        shard = min(position * count // total, count - 1)
        position += tensors[name].nbytes
        if name.endswith(".weight") and ("switch_mlp" in name or "ngram_embedding" in name):
            straddling += 1
            if straddling % 5 == 0:
                shard = (shard + 1) % count
        shards[shard][name] = tensors[name]
    return shards


def write_checkpoint(geometry, directory):
    """Writes the checkpoint that `geometry` (an object as above) describes; returns {file: sha256}.

    ValueError when a key is unknown or sizes do not divide.
    """
    unknown = geometry.keys() - GEOMETRY_KEYS
    if unknown:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    misaligned = geometry.get("misaligned", False)
    text, vision = complete_configs(geometry)

    model = TensorFile(geometry, "model")
    add_text_model(model, text)
    if vision is not None:
        add_vision_tower(model, vision)
    files = {}
    weight_map = {}
    shards = split_shards(model.tensors, geometry.get("shards", 2))
    for i, tensors in enumerate(shards, start=1):
        name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        files[name] = tensors
        weight_map |= dict.fromkeys(tensors, name)

    overrides = model.group_overrides
    if geometry.get("draft_head", True):
        draft = TensorFile(geometry, "mtp")
        add_draft_head(draft, text)
        files["mtp.safetensors"] = dict(sorted(draft.tensors.items()))
        overrides = overrides | draft.group_overrides

    for name, tensors in files.items():
        write_safetensors(directory / name, tensors, misaligned)
    # As in published files, total_size counts headers too.
    total = sum((directory / name).stat().st_size for name in files if name != "mtp.safetensors")
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    texts = {
        "config.json": config_json(geometry, text, vision, overrides),
        "model.safetensors.index.json": json.dumps(index, indent=1) + "\n",
    }
    for name, content in texts.items():
        (directory / name).write_bytes(content.encode())
    return {
        name: hashlib.sha256((directory / name).read_bytes()).hexdigest()
        for name in sorted([*files, *texts])
    }


def check_digests(geometry, digests):
    """ValueError when `digests` are not those that `geometry` records."""
    recorded = geometry.get("sha256", digests)
    wrong = sorted(n for n in digests.keys() | recorded.keys() if digests.get(n) != recorded.get(n))
    if wrong:
        raise ValueError(f"not the recorded bytes: {', '.join(wrong)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("geometry", type=pathlib.Path, help="JSON description (see the source)")
    parser.add_argument("directory", type=pathlib.Path, help="checkpoint directory to write")
    parser.add_argument("--seed", type=int, help="instead of the description's; checks no digest")
    parser.add_argument("--record", action="store_true", help="write the digests into GEOMETRY")
    args = parser.parse_args()
    if args.record and args.seed is not None:
        parser.error("--record takes the seed from the description")

    geometry = json.loads(args.geometry.read_text())
    if args.seed is not None:
        geometry["seed"] = args.seed
        geometry.pop("sha256", None)
    try:
        digests = write_checkpoint(geometry, args.directory)
        if args.record:
            geometry["sha256"] = digests
            args.geometry.write_text(json.dumps(geometry, indent=1) + "\n")
        check_digests(geometry, digests)
    except ValueError as error:
        sys.exit(f"{args.geometry}: {error}")


if __name__ == "__main__":
    main()
