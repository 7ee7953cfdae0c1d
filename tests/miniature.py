"""The miniature checkpoint of this repository, and its greedy replies as the reference gives them."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "miniature"
GOLDENS = json.loads((ROOT / "tests" / "goldens" / "miniature_greedy.json").read_text())
