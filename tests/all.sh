#!/usr/bin/env bash
# The whole suite in two parts side by side: the tests with real servers mostly wait, so several files of them run at
# once; the others mostly compute, and run one after the other. What they say is shown when both are done.
# Arguments go to both. LANES says how many files with real servers run at once.
set -uo pipefail
cd "$(dirname "$0")/.."
pytest=${PYTEST:-.venv/bin/pytest}
waiting=(tests/e2e tests/integration)
computing=(tests/contract tests/property tests/unit)

# Compiled once, and not by every process that a test starts: a third of what the suite costs.
unset PYTHONDONTWRITEBYTECODE

said=$(mktemp)
nice -n 10 "$pytest" "${computing[@]}" "$@" >"$said" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null; rm -f "$said"' EXIT

echo "== ${waiting[*]} (beside them: ${computing[*]})"
# A file stays whole, since its tests share servers.
"$pytest" --numprocesses "${LANES:-3}" --dist loadfile --no-loadscope-reorder "${waiting[@]}" "$@"
waited=$?
wait "$beside"
computed=$?
echo "== ${computing[*]}"
cat "$said"
exit $((waited || computed))
