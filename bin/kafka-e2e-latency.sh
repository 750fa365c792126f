#!/bin/sh
exec "$(dirname -- "$0")/tidelog" kafka-e2e-latency "$@"
