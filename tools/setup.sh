#!/bin/bash
# tools/setup.sh build [test]: installs the Debian packages that are missing, as root or with sudo.
set -euo pipefail

packages=()
for kind in "$@"; do
  case $kind in
    build)
      packages+=(g++ cmake ninja-build ccache mold pkg-config libfmt-dev nlohmann-json3-dev
        libcli11-dev liburing-dev libssl-dev libpcre2-dev libutf8proc-dev libhwy-dev
        libboost1.81-dev python3)
      ;;
    test)
      packages+=(libgtest-dev libgmock-dev googletest libbenchmark-dev python3 python3-venv git
        g++-aarch64-linux-gnu qemu-user clang-format-19 chromium chromium-driver)
      # Node.js often comes from elsewhere.
      command -v node > /dev/null || packages+=(nodejs)
      command -v npm > /dev/null || packages+=(npm)
      ;;
    *)
      echo "usage: $0 build|test ..." >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null || {
    echo "these packages are missing, and neither root nor sudo is at hand: ${missing[*]}" >&2
    exit 1
  }
  root=(sudo)
fi
echo "installing: ${missing[*]}"
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" > /dev/null
