#!/usr/bin/env python3
"""Checks the rules of the house (docs/ARCHITECTURE.md) that a compiler does not.

A folder of src/ includes only itself and folders above it in LAYERS; every folder is in LAYERS;
CMakeLists.txt declares the same order.
"""

import pathlib
import re
import sys

LAYERS = ["base", "io", "checkpoint", "kernels", "cuda", "experts", "state", "model", "text",
          "generate", "plan", "engine", "download", "server", "cli"]
# Facts about the build that are generated into base/.
GENERATED = {"base/version.h"}


def problems(root):
    source = root / "src"
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu"):
            continue
        layer = path.relative_to(source).parts[0]
        where = path.relative_to(root)
        if layer not in LAYERS:
            yield f"{where}: src/{layer}/ is no layer of the house"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or match[1] in GENERATED:
                continue
            target = match[1].split("/")[0]
            if target not in LAYERS:
                if (pathlib.Path("/usr/include") / match[1]).exists():
                    yield f"{where}:{number}: write #include <{match[1]}> for a library's header"
                else:
                    yield f"{where}:{number}: {match[1]} is not written from src/"
            elif LAYERS.index(target) > LAYERS.index(layer):
                yield f"{where}:{number}: {layer}/ must not include {match[1]}, which is below it"
            elif not (source / match[1]).exists():
                yield f"{where}:{number}: {match[1]} does not exist"
    declared = re.findall(r"^slotstream_layer\((\w+)", (root / "CMakeLists.txt").read_text(), re.M)
    if declared != [layer for layer in LAYERS if layer in declared]:
        yield "CMakeLists.txt declares the layers in another order than the house's"


def main():
    found = list(problems(pathlib.Path(__file__).resolve().parent.parent))
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
