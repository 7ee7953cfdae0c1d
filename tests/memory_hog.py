"""A reply in a control group while another process of the group takes memory and gives it back.

    memory_hog.py SLOTSTREAM SCRATCH

prints the engine's log of a reply that is long enough for its pool to grow back (some two minutes),
and whether the bytes are those of an undisturbed reply. Needs root and the memory controller of
version 1.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import memory_limits

GEOMETRY_MB = 96


class Hog:
    """A process in a group that holds as much memory as it is told to, and never less."""

    PROGRAM = ("import sys\nheld = []\nfor line in sys.stdin:\n"
               "    while len(held) < int(line): held.append(bytes([1]) * 1000000)\n"
               "    print('ok', flush=True)\n")

    def __init__(self, group):
        self.process = subprocess.Popen(["python3", "-c", self.PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        preexec_fn=group.enter)

    def take(self, megabytes):
        self.process.stdin.write(f"{megabytes}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def release(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def swapped_in():
    """Pages that the machine has read from swap since it started."""
    with open("/proc/vmstat", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("pswpin "))


def reply(binary, scratch, group_mb, hog_mb, tokens, hold=0):
    """A greedy reply of so many tokens beside a hog that takes so much, a little more every two
    seconds until the pool has shrunk, and leaves `hold` seconds later: the engine's log with times,
    its figures, and those of an undisturbed reply."""
    scratch.mkdir(parents=True, exist_ok=True)
    model, config = scratch / "hogged", scratch / "hogged.json"
    config.write_text(json.dumps(memory_limits.geometry(GEOMETRY_MB)))
    stats = scratch / "hogged_stats.json"
    command = [binary, "run", "--model", model, "--ids", "1,2,3", "--max-tokens", tokens,
               "--max-context", 2 * tokens, "--greedy", "--threads", 1, "--stats-json", stats]
    command = list(map(str, command))
    try:
        subprocess.run([binary, "synth", "--geometry", config, model], check=True,
                       capture_output=True)
        with memory_limits.Group(group_mb) as group:
            subprocess.run(command, check=True, capture_output=True, timeout=600)
            expected = json.loads(stats.read_text())
            swapped = swapped_in()
            engine = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      text=True, preexec_fn=group.enter,
                                      # Other engines on this machine are none of ours.
                                      env={**os.environ, "XDG_RUNTIME_DIR": str(scratch)})
            log, start = [], time.monotonic()

            def read():
                for line in engine.stderr:
                    log.append((time.monotonic() - start, line.rstrip()))

            reader = threading.Thread(target=read)
            reader.start()
            hog = Hog(group)
            while not log and engine.poll() is None:  # until the plan is made
                time.sleep(0.05)
            hog.take(hog_mb)
            patience = time.monotonic() + 2
            while engine.poll() is None and not any("expert slots (were" in line for _, line in log):
                time.sleep(0.05)
                if time.monotonic() > patience:
                    hog_mb, patience = hog_mb + 4, patience + 2
                    hog.take(hog_mb)
            time.sleep(hold)
            hog.release()
            left = time.monotonic() - start
            status = engine.wait(timeout=600)
            reader.join()
            engine.stderr.close()
        return {"status": status, "log": log, "left": left, "swapped_in": swapped_in() - swapped,
                "found": json.loads(stats.read_text()), "expected": expected}
    finally:
        shutil.rmtree(model, ignore_errors=True)


def main():
    result = reply(os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]), group_mb=200,
                   hog_mb=120, tokens=12000, hold=2)
    for when, line in result["log"]:
        print(f"{when:6.1f} s  {line}")
    found, same = result["found"], result["found"]["output_ids"] == result["expected"]["output_ids"]
    print(f"the hog left after {result['left']:.1f} s; {found['governor']}; {result['swapped_in']} "
          f"pages swapped in; peak {found['peak_resident_bytes'] / 1e6:.1f} MB of "
          f"{found['plan']['total_bytes'] / 1e6:.1f} planned; the reply is "
          f"{'the same' if same else 'ANOTHER'}")


if __name__ == "__main__":
    main()
