#!/bin/sh
# The tests of lib/slug.sh, in the Test Anything Protocol.
[ -z "$STEPS" ] || echo "gate $FLYBALL_SESSION $FLYBALL_NODE $FLYBALL_TURN" >> "$STEPS"
. lib/slug.sh

number=0 failed=0
is() {
    number=$((number + 1))
    if [ "$2" = "$3" ]; then echo "ok $number - $1"; else
        failed=1
        printf 'not ok %s - %s\n  ---\n  message: "expected %s, got %s"\n  ...\n' "$number" "$1" "$3" "$2"
    fi
}

is 'small letters' "$(slug 'Hello')" 'hello'
is 'words are joined by dashes' "$(slug 'Hello World')" 'hello-world'
is 'punctuation is left out' "$(slug 'Hello, World!')" 'hello-world'
is 'one dash between two words' "$(slug 'Hello -- World')" 'hello-world'
echo "1..$number"
exit "$failed"
