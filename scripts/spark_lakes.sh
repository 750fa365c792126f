#!/usr/bin/env bash
# Fetches Delta and Iceberg (jars from Maven Central), each with the Spark that it is built for (from PyPI), into
# .cache/spark-lakes, unless they are there. Called by `make test`; PYTHON names the interpreter. Neither has a release for the
# newer PySpark beside our source, and in another Spark than its own either fails in Java's linker.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}

for lake in delta iceberg; do
    folder=$here/../.cache/spark-lakes/$lake
    pom=$here/spark-lakes/$lake.xml
    requirements=$here/../requirements/spark-$lake.txt

    if ! cmp -s "$pom" "$folder/lib/pom.xml"; then
        "$here/debian_packages.sh" java mvn
        echo "Fetching $lake from Maven Central"
        rm -rf "$folder/lib"
        mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder/lib"
        cp "$pom" "$folder/lib/pom.xml"
    fi
    if ! cmp -s "$requirements" "$folder/python/requirements.txt"; then
        echo "Fetching the Spark that $lake is built for"
        rm -rf "$folder/python"
        "$python" -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --target "$folder/python" \
            --requirement "$requirements"
        cp "$requirements" "$folder/python/requirements.txt"
    fi
done
