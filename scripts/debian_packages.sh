#!/usr/bin/env bash
# Makes sure that the commands which the tests need are there, and installs the Debian packages only for those that are missing.
# Works as root without sudo and as a user with sudo. Called by `make test` and `make bench`.
#
#   scripts/debian_packages.sh kcat java mvn
set -euo pipefail

declare -A package_of=([kcat]=kcat [java]=default-jre-headless [mvn]=maven [mkfs.ext4]=e2fsprogs [mkfs.xfs]=xfsprogs)
readonly java_version_min=17  # Apache Kafka's broker and tools since 4.0.

# Where the tools are that make file systems; only root has it in its path.
PATH=$PATH:/usr/sbin:/sbin

present() {
    command -v "$1" >/dev/null 2>&1 || return 1
    [[ $1 == java ]] || return 0
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [[ -n $version && $version -ge $java_version_min ]]
}

missing=()
for command in "$@"; do
    [[ -n ${package_of[$command]:-} ]] || { echo "$0: no package is known for '$command'" >&2; exit 2; }
    present "$command" || missing+=("${package_of[$command]}")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "Missing: ${missing[*]}. Install them as root, or install sudo, and try again." >&2
        exit 1
    }
    as_root=(sudo)
fi
command -v apt-get >/dev/null 2>&1 || {
    echo "Missing: ${missing[*]} (names of Debian packages), and there is no apt-get here to install them with." >&2
    exit 1
}

echo "Installing Debian packages: ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}")
# The package lists of a fresh image are empty or old: refresh them only when the first try fails.
if ! "${install[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update -qq
    "${install[@]}" >/dev/null
fi

for command in "$@"; do
    present "$command" || { echo "'$command' is still missing (or too old) after the installation." >&2; exit 1; }
done
