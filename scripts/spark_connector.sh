#!/usr/bin/env bash
# Fetches Spark's own Kafka connector (jars from Maven Central) and the Spark that it was built for (from PyPI) into
# .cache/spark-connector, unless they are already there. Called by `make test` and `make bench`; PYTHON names the interpreter.
# Connector and Spark must be of one version: the newer PySpark beside our source has changed classes under its streams.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
folder=$here/../.cache/spark-connector
pom=$here/spark-connector/pom.xml
requirements=$here/../requirements/spark-connector.txt

if ! cmp -s "$pom" "$folder/lib/pom.xml"; then
    "$here/debian_packages.sh" java mvn
    echo "Fetching Spark's Kafka connector from Maven Central"
    rm -rf "$folder/lib"
    mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder/lib"
    cp "$pom" "$folder/lib/pom.xml"
fi
if ! cmp -s "$requirements" "$folder/python/requirements.txt"; then
    echo "Fetching the Spark that the connector was built for"
    rm -rf "$folder/python"
    "$python" -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --target "$folder/python" \
        --requirement "$requirements"
    cp "$requirements" "$folder/python/requirements.txt"
fi
