#!/bin/sh
# Sees to it that FOLDER is a virtual environment with exactly what LOCK pins, and this project, editable:
#
#     scripts/venv.sh FOLDER LOCK         PYTHON in the environment names another Python than python3
#
# It starts again from nothing whenever the lock, the package's own metadata, the Python or this folder's place is
# another than last time, and when an earlier run was stopped half-way: the fingerprint of all these is written last.
# Times of change are not looked at: a fresh clone or a branch switch sets them to anything.
set -eu

folder=$1
lock=$2
python=${PYTHON:-python3}

stop() {
    echo "headcount: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    stop "there is no $python here: install Python 3.11 or newer, or name yours with PYTHON=... after make"

# What is at the other end may be another folder's, and is emptied below.
[ ! -L "$folder" ] || stop "$folder is a symbolic link: remove it, and an environment is made here"

# Runs on any Python, as old as 2.7, up to the first check.
fingerprint=$("$python" - "$python" "$lock" "$0" <<'END'
import sys

if sys.version_info < (3, 11):
    found = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit(
        "headcount: Python 3.11 or newer is needed, and %s is %s: name a newer one with PYTHON=... after make"
        % (sys.argv[1], found)
    )
try:
    import ensurepip
    import venv
except ImportError:
    sys.exit(
        "headcount: %s has no venv module: on Debian and Ubuntu the package python3-venv brings it" % sys.argv[1]
    )

import hashlib
import json
import os
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
parts = {
    "python": [sys.version, os.path.realpath(sys.executable)],
    "place": os.getcwd(),
    "metadata": [project["build-system"], project["project"], project["tool"]["hatch"]],
    "files": [Path(name).read_text() for name in sys.argv[2:]],
}
print(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())
END
) || exit 1

made=$folder/headcount-fingerprint
if [ -x "$folder/bin/python" ] && [ "$(cat "$made" 2>/dev/null)" = "$fingerprint" ]; then
    exit 0
fi

echo "Installing what $lock pins into $folder: about half a minute, more on a slow line" >&2
rm -f "$made"
"$python" -m venv --clear "$folder" || stop "$folder could not be made: see above"
# Two times quiet leaves pip's errors. Wheels only: a source distribution would fetch what it is built with, unhashed.
# PySpark comes as nothing else: what it is built with is in its lock, and is installed before it.
wheels_only="--require-hashes --only-binary :all:"
if grep -q '^pyspark==' "$lock"; then
    sed -n '/^setuptools==/,/[^\\]$/p' "$lock" >"$folder/build.lock"
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
        $wheels_only -r "$folder/build.lock" || stop "what PySpark is built with could not be installed: see above"
    wheels_only="$wheels_only --no-binary pyspark --no-build-isolation"
fi
"$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
    $wheels_only -r "$lock" || stop "$lock could not be installed: see above"
"$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
    --no-build-isolation --no-deps --no-index --editable . || stop "the project could not be installed: see above"
echo "$fingerprint" >"$made"
