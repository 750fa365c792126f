#!/usr/bin/env bash
# Fetches Apache Kafka (broker, Java clients, tools) from Maven Central into one folder of jars, unless it is already there,
# and prints that folder. TIDELOG_APACHE_KAFKA_LIB names another folder. Called by `make test` and `make bench`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lib=${TIDELOG_APACHE_KAFKA_LIB:-$here/../.cache/apache-kafka/lib}
pom=$here/apache-kafka/pom.xml
stamp=$lib/pom.xml  # A copy of what the folder was made from: when it differs, the folder is made again.

if ! cmp -s "$pom" "$stamp"; then
    "$here/debian_packages.sh" java mvn
    echo "Fetching Apache Kafka from Maven Central into $lib"
    mkdir -p "$(dirname "$lib")"
    fresh=$(mktemp -d "$(dirname "$lib")/lib.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh"
    cp "$pom" "$fresh/pom.xml"
    chmod 755 "$fresh"
    rm -rf "$lib"
    mv "$fresh" "$lib"
    trap - EXIT
fi
"$here/debian_packages.sh" java
