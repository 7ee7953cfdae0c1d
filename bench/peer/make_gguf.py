#!/usr/bin/env python3
"""Writes a qwen4_exp model as GGUF, for llama-bench beside slotstream-bench.

  make_gguf.py CHECKPOINT OUT.gguf             the same weights: every 4-bit group of an original
                                               checkpoint becomes Q4_1 blocks with its own codes
  make_gguf.py CHECKPOINT OUT.gguf --random T  random weights of type T (Q4_0 or Q4_1) in the
                                               geometry of CHECKPOINT/config.json; the n-gram
                                               tables are small, a token reads 16 rows of any

Needs numpy and the gguf package of the llama.cpp tree: PYTHONPATH=DIR/src/gguf-py.
"""

import argparse
import json
import pathlib
import struct

import gguf
import numpy as np
from gguf import MODEL_TENSOR as T

BLOCK = 32  # weights of a Q4_0 or Q4_1 block
RANDOM_NGRAM_ROWS = 20011  # per head
RANDOM_TILE = 1 << 20  # blocks made at random; longer tensors repeat them


class Config:
    def __init__(self, directory):
        self.text = json.loads((directory / "config.json").read_text())["text_config"]
        c = self.text
        self.layers = c["num_hidden_layers"]
        interval = c.get("full_attention_interval", 4)
        kinds = c.get("layer_types") or [
            "full_attention" if (i + 1) % interval == 0 else "linear_attention"
            for i in range(self.layers)]
        self.recurrent = [kind == "linear_attention" for kind in kinds]
        self.key_heads, self.value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.key_dim = self.key_heads * c["linear_key_head_dim"]
        self.value_dim = self.value_heads * c["linear_value_head_dim"]
        self.ngram_layer = c["ple_layer_ids"][0] - 1
        self.ngram_heads = (c["ngram_size"] - 1) * c["heads_per_ngram"]
        self.ngram_width = c["ple_embed_dim"] // self.ngram_heads

    def __getitem__(self, key):
        return self.text[key]

    def tiled(self, per_head):
        """Rows of value heads: ours lie by key head, llama.cpp's cycle through the key heads."""
        rows = np.arange(self.value_heads * per_head)
        return rows.reshape(self.key_heads, -1, per_head).swapaxes(0, 1).reshape(-1)

    def tiled_qkv(self):
        first = np.arange(2 * self.key_dim)
        return np.concatenate([first, 2 * self.key_dim + self.tiled(self["linear_value_head_dim"])])


# Transformations of a float tensor on its way.
def flat(x):
    return x.reshape(-1)


def squeezed(x):
    return x.reshape(x.shape[0], -1)


def inventory(c):
    """(tensor, layer, suffix, source, shape, quantized, rows or None, columns or None, change)."""
    hidden, wide, rank = c["hidden_size"], c["hc_count"] * c["hidden_size"], c["hc_lowrank"]
    experts, inner, shared = (c["num_experts"], c["moe_intermediate_size"],
                              c["shared_expert_intermediate_size"])
    words, head_dim = c["vocab_size"], c["head_dim"]
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    index_queries = c["indexer_n_heads"] * c["indexer_head_dim"]
    value_rows, heads_order = c.tiled(c["linear_value_head_dim"]), c.tiled(1)

    def q(tensor, layer, source, shape, rows=None, columns=None):
        return (tensor, layer, "weight", source, shape, True, rows, columns, None)

    def f(tensor, layer, source, shape, rows=None, change=None, suffix="weight"):
        return (tensor, layer, suffix, source, shape, False, rows, None, change)

    yield q(T.TOKEN_EMBD, None, "model.embed_tokens", (words, hidden))
    yield q(T.OUTPUT, None, "lm_head", (words, hidden))
    mixer = "model.hyper_connection_mixer."
    yield f(T.HC_HEAD_NORM, None, mixer + "hc_norm", (wide,))
    yield q(T.HC_HEAD_DOWN, None, mixer + "input_mix_weight_down", (rank, wide))
    yield q(T.HC_HEAD_UP, None, mixer + "input_mix_weight_up", (wide, rank))
    yield q(T.PER_LAYER_TOKEN_EMBD, None, "ngrams", None)
    for i in range(c.layers):
        p = f"model.layers.{i}."
        for site, norm, down, up, inject in (
                ("attn", T.HC_ATTN_NORM, T.HC_ATTN_DOWN, T.HC_ATTN_UP, T.HC_ATTN_INJECT),
                ("mlp", T.HC_FFN_NORM, T.HC_FFN_DOWN, T.HC_FFN_UP, T.HC_FFN_INJECT)):
            s = f"{p}{site}_hyper_connection."
            yield f(norm, i, s + "hc_norm", (wide,))
            yield q(down, i, s + "input_mix_weight_down", (rank, wide))
            yield q(up, i, s + "input_mix_weight_up", (wide, rank))
            yield f(inject, i, s + "block_inject_weight", (c["hc_count"], wide))
        if c.recurrent[i]:
            a = p + "linear_attn."
            qkv, order = 2 * c.key_dim + c.value_dim, c.tiled_qkv()
            yield q(T.ATTN_QKV, i, a + "in_proj_qkv", (qkv, hidden), order)
            yield q(T.ATTN_GATE, i, a + "in_proj_z", (c.value_dim, hidden), value_rows)
            yield f(T.SSM_CONV1D, i, a + "conv1d", (qkv, c["linear_conv_kernel_dim"]), order,
                    squeezed)
            yield f(T.SSM_DT, i, a + "dt_bias", (c.value_heads,), heads_order, suffix="bias")
            yield f(T.SSM_A, i, a + "A_log", (c.value_heads,), heads_order,
                    lambda x: -np.exp(x), suffix="")
            yield f(T.SSM_BETA, i, a + "in_proj_b", (c.value_heads, hidden), heads_order)
            yield f(T.SSM_ALPHA, i, a + "in_proj_a", (c.value_heads, hidden), heads_order)
            yield f(T.SSM_NORM, i, a + "norm", (c["linear_value_head_dim"],))
            yield q(T.SSM_OUT, i, a + "out_proj", (hidden, c.value_dim), None, value_rows)
        else:
            a = p + "self_attn."
            yield q(T.ATTN_Q, i, a + "q_proj", (2 * heads * head_dim, hidden))
            yield q(T.ATTN_K, i, a + "k_proj", (kv_heads * head_dim, hidden))
            yield q(T.ATTN_V, i, a + "v_proj", (kv_heads * head_dim, hidden))
            yield q(T.ATTN_OUT, i, a + "o_proj", (hidden, heads * head_dim))
            yield f(T.ATTN_Q_NORM, i, a + "q_norm", (head_dim,))
            yield f(T.ATTN_K_NORM, i, a + "k_norm", (head_dim,))
            x, dim = a + "indexer.", c["indexer_head_dim"]
            yield f(T.INDEXER_Q_PROJ, i, x + "index_qk_proj", (index_queries, hidden),
                    slice(0, index_queries))
            yield f(T.INDEXER_K_PROJ, i, x + "index_qk_proj", (dim, hidden),
                    slice(index_queries, None))
            yield f(T.INDEXER_Q_NORM, i, x + "q_layernorm", (dim,))
            yield f(T.INDEXER_K_NORM, i, x + "k_layernorm", (dim,))
        if i == c.ngram_layer:
            n = p + "ple."
            yield q(T.PLE_KEY, i, n + "key_proj", (wide, c["ple_embed_dim"]))
            yield q(T.PLE_VALUE, i, n + "value_proj", (hidden, c["ple_embed_dim"]))
            yield f(T.PLE_CONV1D, i, n + "conv1d", (wide, c.text.get("ple_conv_kernel_size", 4)),
                    None, squeezed)
            for tensor, name in ((T.PLE_NORM_KEY, "norm_key"), (T.PLE_NORM_QUERY, "norm_query"),
                                 (T.PLE_NORM_CONV, "norm_conv")):
                yield f(tensor, i, n + name, (wide,))
        m = p + "mlp."
        yield f(T.FFN_GATE_INP, i, m + "gate", (experts, hidden))
        yield f(T.FFN_GATE_INP_SHEXP, i, m + "shared_expert_gate", (hidden,), None, flat)
        yield q(T.FFN_GATE_SHEXP, i, m + "shared_expert.gate_proj", (shared, hidden))
        yield q(T.FFN_UP_SHEXP, i, m + "shared_expert.up_proj", (shared, hidden))
        yield q(T.FFN_DOWN_SHEXP, i, m + "shared_expert.down_proj", (hidden, shared))
        yield q(T.FFN_GATE_EXP, i, m + "switch_mlp.gate_proj", (experts, inner, hidden))
        yield q(T.FFN_UP_EXP, i, m + "switch_mlp.up_proj", (experts, inner, hidden))
        yield q(T.FFN_DOWN_EXP, i, m + "switch_mlp.down_proj", (experts, hidden, inner))


class Original:
    """The tensors of an original checkpoint."""

    NUMPY = {"BF16": "<u2", "F32": "<f4", "U32": "<u4", "I64": "<i8"}

    def __init__(self, directory, config):
        self.config, self.tensors = config, {}
        for path in sorted(directory.glob("model*.safetensors")):
            data = np.memmap(path, np.uint8, "r")
            length, = struct.unpack("<Q", data[:8].tobytes())
            for name, entry in json.loads(data[8:8 + length].tobytes()).items():
                if name == "__metadata__":
                    continue
                begin, end = (8 + length + at for at in entry["data_offsets"])
                raw = np.frombuffer(data[begin:end].tobytes(), self.NUMPY[entry["dtype"]])
                self.tensors[name.removeprefix("language_model.")] = raw.reshape(entry["shape"])

    def hash_constants(self):
        p = f"model.layers.{self.config.ngram_layer}.ple.ple_embedding."
        return [self.tensors[p + name].tolist()
                for name in ("layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")]

    def floats(self, name):
        x = self.tensors[name if name in self.tensors else name + ".weight"]
        if x.dtype == np.uint16:
            x = (x.astype(np.uint32) << 16).view(np.float32)
        return x.astype(np.float32)

    def float_tensor(self, source, shape, rows, change):
        x = self.floats(source)
        x = change(x) if change else x
        x = x if rows is None else x[rows]
        assert x.shape == shape, (source, x.shape, shape)
        return np.ascontiguousarray(x)

    def affine(self, name):
        words = self.tensors[name + ".weight"]
        shifts = 4 * np.arange(8, dtype=np.uint32)
        codes = ((words[..., None] >> shifts) & 15).astype(np.uint8)
        codes = codes.reshape(*words.shape[:-1], -1)
        scales, biases = self.floats(name + ".scales"), self.floats(name + ".biases")
        repeat = codes.shape[-1] // scales.shape[-1] // BLOCK
        return codes, np.repeat(scales, repeat, -1), np.repeat(biases, repeat, -1)

    def blocks(self, source, shape, rows, columns):
        if source == "ngrams":
            p = f"model.layers.{self.config.ngram_layer}.ple.ple_embedding.ngram_embedding.shard_"
            parts = [self.affine(p + str(i)) for i in range(self.config["split_ngram_parts"])]
            codes, scales, biases = (np.concatenate(pieces) for pieces in zip(*parts))
        else:
            codes, scales, biases = self.affine(source)
            assert codes.shape == shape, (source, codes.shape, shape)
        if rows is not None:
            codes, scales, biases = codes[rows], scales[rows], biases[rows]
        if columns is not None:
            blocks = columns[::BLOCK] // BLOCK
            codes, scales, biases = codes[:, columns], scales[:, blocks], biases[:, blocks]
        codes = codes.reshape(*scales.shape, BLOCK)
        packed = codes[..., :16] | (codes[..., 16:] << 4)
        half = [x.astype(np.float16)[..., None].view(np.uint8) for x in (scales, biases)]
        return np.concatenate([*half, packed], -1).reshape(*scales.shape[:-1], -1)

    def ngram_shape(self):
        p = f"model.layers.{self.config.ngram_layer}.ple.ple_embedding.ngram_embedding.shard_"
        rows = sum(len(self.tensors[f"{p}{i}.weight"])
                   for i in range(self.config["split_ngram_parts"]))
        return rows, self.config.ngram_width


class Random:
    """Random tensors of a geometry: the sizes and the work are right, the model says nothing."""

    def __init__(self, config, kind):
        self.config, self.kind, self.rng = config, kind, np.random.default_rng(1)

    def hash_constants(self):
        heads = self.config.ngram_heads
        return [[2 * i + 20000003 for i in range(self.config["ngram_size"])],
                [i * RANDOM_NGRAM_ROWS for i in range(heads)], [RANDOM_NGRAM_ROWS] * heads]

    def ngram_shape(self):
        return self.config.ngram_heads * RANDOM_NGRAM_ROWS, self.config.ngram_width

    def float_tensor(self, source, shape, rows, change):
        x = self.rng.standard_normal(shape, dtype=np.float32)
        if source.endswith("norm") or "norm_" in source:
            return 1 + 0.1 * x
        if source.endswith("A_log"):
            return -np.exp(x)
        # Router logits must be well spread, or every token chooses by noise.
        return x * np.float32((2 if source.endswith("mlp.gate") else 1) / np.sqrt(shape[-1]))

    def blocks(self, source, shape, rows, columns):
        size = gguf.GGML_QUANT_SIZES[self.kind][1]
        count = int(np.prod(shape)) // BLOCK
        tile = self.rng.integers(0, 256, (min(count, RANDOM_TILE), size), dtype=np.uint8)
        scale = 1 / np.sqrt(shape[-1]) / 4.6  # uniform codes have that standard deviation
        tile[:, :2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        if self.kind == gguf.GGMLQuantizationType.Q4_1:
            tile[:, 2:4] = np.frombuffer(np.float16(-7.5 * scale).tobytes(), np.uint8)
        flat_bytes = np.resize(tile.reshape(-1), count * size)
        return flat_bytes.reshape(*shape[:-1], -1)


def add_settings(w, c, source, directory):
    w.add_block_count(c.layers)
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["moe_intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c.text.get("rms_norm_eps", 1e-6))
    rope = c["rope_parameters"]
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(int(c["head_dim"] * rope["partial_rotary_factor"]))
    w.add_rope_dimension_sections([*rope["mrope_section"], 0])
    w.add_expert_count(c["num_experts"])
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_ssm_state_size(c["linear_key_head_dim"])
    w.add_ssm_group_count(c.key_heads)
    w.add_ssm_time_step_rank(c.value_heads)
    w.add_ssm_inner_size(c.value_dim)
    w.add_recurrent_layers(c.recurrent)
    w.add_full_attention_interval(c.text.get("full_attention_interval", 4))
    w.add_hyper_connection_count(c["hc_count"])
    w.add_hyper_connection_low_rank(c["hc_lowrank"])
    w.add_indexer_head_count(c["indexer_n_heads"])
    w.add_indexer_key_length(c["indexer_head_dim"])
    w.add_indexer_top_k(c["indexer_budget"])
    ratio = c["indexer_compress_ratio"]
    w.add_attention_compress_ratios([0 if r else ratio for r in c.recurrent])
    multipliers, offsets, sizes = source.hash_constants()
    w.add_ple_layers([c.ngram_layer])
    w.add_ple_ngram_size(c["ngram_size"])
    w.add_ple_heads_per_ngram(c["heads_per_ngram"])
    w.add_ple_conv_kernel(c.text.get("ple_conv_kernel_size", 4))
    w.add_ple_eos_token_id(c["eos_token_id"])
    w.add_embedding_length_per_layer_input(c.ngram_width)
    w.add_ple_layer_multipliers(multipliers)
    w.add_ple_head_offsets(offsets)
    w.add_ple_head_vocab_sizes(sizes)
    # llama-bench feeds ids: no tokenizer is needed.
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("none")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out")
    parser.add_argument("--random", choices=["Q4_0", "Q4_1"], metavar="TYPE")
    options = parser.parse_args()
    c = Config(options.checkpoint)
    kind = gguf.GGMLQuantizationType[options.random or "Q4_1"]
    source = Random(c, kind) if options.random else Original(options.checkpoint, c)
    w = gguf.GGUFWriter(options.out, "qwen4exp")
    add_settings(w, c, source, options.checkpoint)
    w.add_file_type({"Q4_0": 2, "Q4_1": 3}[kind.name])
    block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    todo = []
    for tensor, layer, suffix, name, shape, quantized, rows, columns, change in inventory(c):
        full = gguf.TENSOR_NAMES[tensor].format(bid=layer) + ("." + suffix if suffix else "")
        if quantized:
            shape = shape or source.ngram_shape()
            stored = (*shape[:-1], shape[-1] // BLOCK * block_bytes)
            w.add_tensor_info(full, stored, np.dtype(np.uint8), int(np.prod(stored)),
                              raw_dtype=kind)
            todo.append(lambda a=(name, shape, rows, columns): source.blocks(*a))
        else:
            w.add_tensor_info(full, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
            todo.append(lambda a=(name, shape, rows, change): source.float_tensor(*a))
    # One tensor in memory at a time.
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for make in todo:
        w.write_tensor_data(make())
    w.close()


if __name__ == "__main__":
    main()
