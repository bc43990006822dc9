#!/bin/sh
# Finds trailing spaces and tabs.
[ -z "$STEPS" ] || echo "call $FLYBALL_SESSION $FLYBALL_CALL" >> "$STEPS"
tab=$(printf '\t')
if grep -n "[ $tab]\$" "$1"; then exit 1; fi
echo "$1: no problems found"
