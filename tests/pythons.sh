#!/usr/bin/env bash
# The tests that need nothing but Python on other versions of it, each in an environment of its own, .venv-VERSION.
#   tests/pythons.sh VERSION... [-- ARGUMENT...]     the locked packages
#   tests/pythons.sh another [-- ARGUMENT...]        the same on the newest that is here and not that of .venv
#   tests/pythons.sh lowest [-- ARGUMENT...]         the lower bounds of pyproject.toml, on the Python of .venv
# Arguments after -- go to pytest, in place of the folder `tests`. A version that is not here is named and passed over.
set -euo pipefail
cd "$(dirname "$0")/.."

unset PYTHONDONTWRITEBYTECODE  # what every process would compile again

versions=()
while (($#)) && [[ $1 != -- ]]; do versions+=("$1"); shift; done
if (($#)); then shift; fi

# pyenv's commands need the name of a version that it has.
interpreter() {
  local ask='import sys; print(sys.executable)'
  "python$1" -c "$ask" 2>/dev/null || PYENV_VERSION=$(pyenv latest "$1" 2>/dev/null) "python$1" -c "$ask" 2>/dev/null
}

another() {
  local ours version
  ours=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in 3.13 3.12 3.11; do
    if [[ $version != "$ours" ]] && interpreter "$version" >/dev/null; then echo "$version" && return; fi
  done
  echo "other than $ours"  # none is here, and that is its name
}

lanes=$((2 * $(nproc)))  # some tests wait half of their time
failed=0
for version in "${versions[@]}"; do
  if [[ $version == another ]]; then version=$(another); fi
  environment=.venv-$version
  # Compiled at once: a test with no room on its disk would leave half a file for all later ones.
  install=(.venv/bin/uv pip install --quiet --compile-bytecode --python "$environment/bin/python")
  if [[ $version == lowest ]]; then
    python=.venv/bin/python
  elif ! python=$(interpreter "$version"); then
    echo "== Python $version is not here"
    continue
  fi
  .venv/bin/uv venv --quiet --clear --python "$python" "$environment"
  if [[ $version == lowest ]]; then
    "${install[@]}" --resolution lowest-direct --editable '.[notify]' --group test -c tests/requirements.lock
  else
    "${install[@]}" --require-hashes -r requirements.lock -r tests/requirements.lock
    "${install[@]}" --no-deps --no-build-isolation --editable .
  fi
  echo "== $("$environment/bin/python" --version), $environment"
  "$environment/bin/pytest" --quick --numprocesses "$((lanes > 8 ? 8 : lanes))" --dist loadfile --no-loadscope-reorder \
    --durations 20 "${@:-tests}" || failed=1
done
exit "$failed"
