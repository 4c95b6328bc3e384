#!/usr/bin/env bash
# The image and the Compose stack as real containers, without a registry or a daemon: `make containers`.
# Installs buildah, podman and debootstrap from Debian, and podman-compose from PyPI into a folder of the cache. Images
# that deploy/ names are replaced by stand-ins of Debian's packages (tests/containers/Dockerfile), in a storage of their
# own in the cache folder: remove its folder `containers` to start afresh. Needs root. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A packages=(
  [buildah]=buildah
  [podman]=podman
  [runc]=runc
  [debootstrap]=debootstrap
  [/usr/lib/podman/netavark]=netavark          # networks between containers
  [/usr/lib/podman/aardvark-dns]=aardvark-dns  # their names
  [iptables]=iptables                          # their published ports
)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]})); then
  install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "Missing: ${missing[*]} (sudo ${install[*]})"
    exit 1
  fi
  echo "Installing from the distribution: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  "${install[@]}" >/dev/null
fi

exec .venv/bin/pytest --capture=no --durations 10 "$@" tests/containers
