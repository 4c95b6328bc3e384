#!/usr/bin/env bash
# The whole suite in two parts side by side: the tests with real servers mostly wait, the others mostly compute.
# What the second part says is shown when both are done. Arguments go to both.
set -uo pipefail
cd "$(dirname "$0")/.."
pytest=${PYTEST:-.venv/bin/pytest}

said=$(mktemp)
nice -n 10 "$pytest" tests/contract tests/property tests/unit "$@" >"$said" 2>&1 &
computing=$!
trap 'kill "$computing" 2>/dev/null; rm -f "$said"' EXIT

echo "== tests/e2e tests/integration (tests/contract tests/property tests/unit run beside them)"
"$pytest" tests/e2e tests/integration "$@"
waited=$?
wait "$computing"
computed=$?
echo "== tests/contract tests/property tests/unit"
cat "$said"
exit $((waited || computed))
