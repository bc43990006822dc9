#!/bin/sh
# The tests of ship.sh, in the Test Anything Protocol.
[ -z "$STEPS" ] || echo "gate $FLYBALL_SESSION $FLYBALL_NODE $FLYBALL_TURN" >> "$STEPS"
. ./ship.sh
number=0 failed=0
is() {
    number=$((number + 1))
    if [ "$2" = "$3" ]; then echo "ok $number - $1"; else
        failed=1
        printf 'not ok %s - %s\n  ---\n  message: "expected %s, got %s"\n  ...\n' "$number" "$1" "$3" "$2"
    fi
}
is class::letter "$(weight_class 500)" letter
is class::heavy "$(weight_class 20001)" freight
is price::home "$(price 1000 1)" 150
is price::rounded "$(price 1050 1)" 165
is price::abroad "$(price 1000 3)" 450
is days::home "$(days 1)" 2
is days::abroad "$(days 3)" 6
echo "1..$number"
exit "$failed"
