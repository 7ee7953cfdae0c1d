#!/bin/bash
# tests/arm64.sh BUILD_DIR SLOTSTREAM: the program for arm64, cross-compiled and run under qemu, must
# write the same bytes of logits as SLOTSTREAM, the program of this machine.
#
# Debian packages: g++-aarch64-linux-gnu qemu-user. The arm64 libraries come from Debian too, as
# package files unpacked into BUILD_DIR/sysroot; nothing foreign is installed on the machine.
set -euo pipefail

[[ $# -eq 2 ]] || { echo "usage: $0 BUILD_DIR SLOTSTREAM" >&2; exit 2; }
source_dir=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
native=$(realpath "$2")
sysroot=$build/sysroot

if [[ ! -e $sysroot/complete ]]; then
  rm -rf "$sysroot" "$build/apt"
  mkdir -p "$sysroot" "$build/apt/lists/partial" "$build/apt/debs"
  # Lists of their own, so that the machine's are left alone.
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o Dir::State::Lists="$build/apt/lists" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$build/apt/debs" && "${apt[@]}" download libfmt-dev libfmt9 liburing-dev libssl-dev \
    libpcre2-dev libutf8proc-dev)
  for package in "$build"/apt/debs/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  # Headers that are the same for every architecture.
  for folder in nlohmann CLI hwy boost; do
    ln -sfn "/usr/include/$folder" "$sysroot/usr/include/$folder"
  done
  touch "$sysroot/complete"
fi

export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig
export PKG_CONFIG_SYSROOT_DIR=$sysroot
"$source_dir/tools/configure.sh" "$build/program" \
  -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/arm64.cmake" -DSLOTSTREAM_SYSROOT="$sysroot" \
  -DSLOTSTREAM_TESTS=OFF \
  -DSLOTSTREAM_FMT=fmt::fmt-header-only > "$build/configure.log"
ninja -C "$build/program" slotstream

for model in models/miniature tests/goldens/tiny-a; do
  logits=(logits --model "$source_dir/$model" --ids 5,17,3,200,42,9,77,1 --pass 3 --memory-gb 1)
  "$native" "${logits[@]}" --out "$build/native.safetensors" 2> /dev/null
  qemu-aarch64 "$build/program/slotstream" "${logits[@]}" --out "$build/arm64.safetensors" \
    2> "$build/run.log" || { cat "$build/run.log"; exit 1; }
  grep -q 'neon kernels' "$build/run.log" || { echo "NEON did not run"; exit 1; }
  cmp "$build/native.safetensors" "$build/arm64.safetensors"
  echo "$model: arm64 writes the same bytes"
done
