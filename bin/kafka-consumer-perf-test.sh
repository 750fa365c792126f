#!/bin/sh
exec "$(dirname -- "$0")/tidelog" kafka-consumer-perf-test "$@"
