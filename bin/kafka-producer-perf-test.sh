#!/bin/sh
exec "$(dirname -- "$0")/tidelog" kafka-producer-perf-test "$@"
