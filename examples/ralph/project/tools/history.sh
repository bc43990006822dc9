#!/bin/sh
# Prints the complete log of the build server.
[ -z "$STEPS" ] || echo "call $FLYBALL_SESSION $FLYBALL_CALL" >> "$STEPS"
awk 'BEGIN { for (i = 1; i <= 9000; i++) printf "build %05d of lib/slug.sh passed\n", i }'
