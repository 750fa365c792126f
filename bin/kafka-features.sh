#!/bin/sh
exec "$(dirname -- "$0")/tidelog" kafka-features "$@"
