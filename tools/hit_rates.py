#!/usr/bin/env python3
"""Hit rates of the expert pool in plain decode, by slots per layer.

    hit_rates.py SLOTSTREAM MODEL [--tokens N] [SLOTS_PER_LAYER ...]

One prompt token, then N tokens of a sampled reply, with the pool empty at first: prompts would
sweep past the pool.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile


def layers_of(model):
    config = json.loads((model / "config.json").read_text())
    return config.get("text_config", config)["num_hidden_layers"]


def hit_rate(binary, model, slots, tokens):
    with tempfile.TemporaryDirectory() as scratch:
        stats = pathlib.Path(scratch) / "stats.json"
        subprocess.run([binary, "run", "--model", model, "--slots", str(slots), "--ids", "1",
                        "--max-tokens", str(tokens), "--max-context", "2048", "--seed", "1",
                        "--stats-json", stats], check=True, capture_output=True)
        report = json.loads(stats.read_text())
    experts = report["experts"]
    return experts["hits"] / (experts["hits"] + experts["misses"]), len(report["output_ids"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("slots", type=int, nargs="*", default=[20, 30, 40, 60, 90, 128])
    parser.add_argument("--tokens", type=int, default=300)
    options = parser.parse_args()
    for slots in options.slots:
        rate, tokens = hit_rate(options.binary, options.model, slots * layers_of(options.model),
                                options.tokens)
        print(f"{slots:4} slots a layer: {rate:.3f} over {tokens} tokens", flush=True)


if __name__ == "__main__":
    main()
