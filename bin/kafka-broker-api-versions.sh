#!/bin/sh
exec "$(dirname -- "$0")/tidelog" kafka-broker-api-versions "$@"
