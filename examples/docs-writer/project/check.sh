#!/bin/sh
# Lists the sections that are missing or empty in GUIDE.md.
[ -z "$STEPS" ] || echo "node $FLYBALL_SESSION $FLYBALL_NODE $FLYBALL_TURN" >> "$STEPS"
missing=''
for section in Install Use Uninstall; do
    words=$(awk -v wanted="## $section" '/^## /{here = ($0 == wanted)} here && !/^## / && NF {print}' GUIDE.md | wc -w)
    [ "$words" -ge 4 ] || missing="$missing $section"
done
[ -n "$missing" ] || { echo "the guide is complete"; exit 0; }
echo "missing or empty:$missing"
exit 1
