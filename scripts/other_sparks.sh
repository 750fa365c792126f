#!/usr/bin/env bash
# Fetches what is built for another Spark than the one beside our source (jars from Maven Central), each with the Spark that it
# is built for (from PyPI), into .cache/spark-NAME, unless they are there: other_sparks.sh connector delta iceberg.
# Called by `make test` and `make bench-spark`; PYTHON names the interpreter. In another Spark than its own, Spark's Kafka
# connector has lost classes under its streams, and Delta and Iceberg fail in Java's linker.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}

for name in "$@"; do
    folder=$here/../.cache/spark-$name
    pom=$here/other-sparks/$name.xml
    requirements=$here/../requirements/spark-$name.txt

    if ! cmp -s "$pom" "$folder/lib/pom.xml"; then
        "$here/debian_packages.sh" java mvn
        echo "Fetching $name for Spark from Maven Central"
        rm -rf "$folder/lib"
        mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder/lib"
        cp "$pom" "$folder/lib/pom.xml"
    fi
    if ! cmp -s "$requirements" "$folder/python/requirements.txt"; then
        echo "Fetching the Spark that $name is built for"
        rm -rf "$folder/python"
        "$python" -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --target "$folder/python" \
            --requirement "$requirements"
        cp "$requirements" "$folder/python/requirements.txt"
    fi
done
