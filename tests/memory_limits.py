"""Runs under memory limits of control groups, with checkpoints larger than the limit.

    memory_limits.py SLOTSTREAM SCRATCH MB [MB ..]

prints a line per limit: the plan, the peaks that the group and the process saw, whether the reply
was that of a run without limit. Needs root and the memory controller of version 1.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

CONTROLLER = pathlib.Path("/sys/fs/cgroup/memory")
# Sizes of experts, layers and width, so that the checkpoint is somewhat larger than the limit (MB).
GEOMETRIES = {96: (256, 128, 128, 18), 256: (512, 128, 256, 11), 512: (512, 192, 256, 15),
              1024: (1024, 128, 256, 22), 2048: (1024, 256, 256, 21)}


def can_limit():
    return os.geteuid() == 0 and os.access(CONTROLLER / "memory.limit_in_bytes", os.W_OK)


def geometry(megabytes):
    hidden, experts, inner, layers = GEOMETRIES[megabytes]
    return {"model_type": "qwen4_exp", "text_config": {
        "vocab_size": 400, "hidden_size": hidden, "num_hidden_layers": layers,
        "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 10000},
        "indexer_n_heads": 2, "indexer_head_dim": 32, "indexer_budget": 64,
        "indexer_compress_ratio": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
        "num_experts": experts, "num_experts_per_tok": 8, "moe_intermediate_size": inner,
        "shared_expert_intermediate_size": inner, "hc_count": 2, "hc_lowrank": 64,
        "ple_layer_ids": [2], "ple_embed_dim": 256, "ngram_size": 3, "heads_per_ngram": 4,
        "ngram_vocab_size_base": 50000, "make_ngram_vocab_size_divisible_by": 4,
        "split_ngram_parts": 1, "eos_token_id": 380}}


class Group:
    """A control group with a limit, as a context."""

    def __init__(self, megabytes):
        self.path = CONTROLLER / f"slotstream-{os.getpid()}"
        self.limit = megabytes * 2**20

    def __enter__(self):
        self.path.mkdir()
        (self.path / "memory.limit_in_bytes").write_text(str(self.limit))
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def number(self, name):
        return int((self.path / name).read_text())


def run(binary, model, stats, *flags, group=None):
    # 300 tokens of prompt in several passes, then a reply.
    command = [binary, "run", "--model", model, "--raw", "--prompt", "memory " * 43, "--max-tokens",
               "40", "--seed", "1", "--max-context", "1024", "--stats-json", stats, *flags]
    # Other engines on this machine are none of ours.
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(pathlib.Path(stats).parent)}
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600,
                            env=environment, preexec_fn=group.enter if group else None)
    if result.returncode != 0:
        raise AssertionError(f"exit status {result.returncode}: {result.stderr}")
    return json.loads(pathlib.Path(stats).read_text())


def measure(binary, scratch, megabytes):
    """The limit, the plan, the peaks, and whether the bytes were the same."""
    scratch.mkdir(parents=True, exist_ok=True)
    model, config = scratch / f"limit{megabytes}", scratch / f"limit{megabytes}.json"
    config.write_text(json.dumps(geometry(megabytes)))
    try:
        subprocess.run([binary, "synth", "--geometry", config, model], check=True,
                       capture_output=True)
        size = sum(path.stat().st_size for path in model.iterdir())
        free = run(binary, model, scratch / "free.json")
        with Group(megabytes) as group:
            limited = run(binary, model, scratch / "limited.json", group=group)
            return {"limit": group.limit, "checkpoint": size,
                    "plan": limited["plan"]["total_bytes"], "slots": limited["plan"]["slots"],
                    "group_peak": group.number("memory.max_usage_in_bytes"),
                    "resident_peak": limited["peak_resident_bytes"],
                    "same": free["output_ids"] == limited["output_ids"],
                    "free_slots": free["plan"]["slots"]}
    finally:
        shutil.rmtree(model, ignore_errors=True)
        config.unlink()


def main():
    binary, scratch = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    print(f"{'limit':>8} {'checkpoint':>10} {'plan':>8} {'resident':>8} {'group':>8}  slots  reply")
    for megabytes in map(int, sys.argv[3:]):
        found = measure(binary, scratch, megabytes)
        columns = [found[key] / 1e6 for key in ("limit", "checkpoint", "plan", "resident_peak",
                                                "group_peak")]
        print("{:8.1f} {:10.1f} {:8.1f} {:8.1f} {:8.1f}".format(*columns),
              f"{found['slots']:6}", "the same" if found["same"] else "DIFFERS", flush=True)


if __name__ == "__main__":
    main()
