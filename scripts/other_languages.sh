#!/usr/bin/env bash
# Builds the clients of other languages that tests drive against our broker, unless they are there: Go and Node.js come as
# pinned Python packages, the clients by their own lock files. Called by `make test`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
made=$here/.cache/languages
sources=$here/tests/languages
python=${PYTHON:-python3}

# What all of it was made from: when it differs, it is made again.
wanted=$(cd "$here" && cat requirements/languages.txt tests/languages/go/go.sum tests/languages/go/*/*.go tests/languages/node/package-lock.json | cksum)
if [[ $(cat "$made/stamp" 2>/dev/null) != "$wanted" || ! -d $sources/node/node_modules ]]; then
    echo "Building the clients of other languages in $made"
    [[ -x $made/bin/python ]] || "$python" -m venv "$made"
    "$made/bin/pip" --disable-pip-version-check --quiet install --require-hashes --requirement "$here/requirements/languages.txt"
    export PATH=$made/bin:$PATH GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false"
    mkdir -p "$made/programs"
    (cd "$sources/go" && go build -o "$made/programs/" ./sarama ./kafkago &&
        go test -c -o "$made/programs/franz-go-tests" github.com/twmb/franz-go/pkg/kgo)
    (cd "$sources/node" && npm ci --silent)
    echo "$wanted" >"$made/stamp"
fi
