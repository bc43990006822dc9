#!/bin/sh
# Looks for tabs and for space at the end of a line.
[ -z "$STEPS" ] || echo "call $FLYBALL_SESSION $FLYBALL_CALL" >> "$STEPS"
tab=$(printf '\t')
if grep -n "[ $tab]\$" "$1"; then exit 1; fi
echo "$1: nothing to complain about"
