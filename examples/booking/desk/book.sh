# Books a flight: one line in bookings.csv, and a code that says which. Arguments: origin, destination, day, seats.
# A booking that was cut off is asked for again under the same key (FLYBALL_CALL): it is the same booking, made once.
set -eu
key=${FLYBALL_CALL:-none}
touch bookings.csv codes.log
booked=$(wc -l <bookings.csv)
number=$(sed -n "s/^$key //p" codes.log)
if [ -z "$number" ]; then
    number=$((booked + 1))
    printf '%s %s\n' "$key" "$number" >>codes.log
fi
if [ "$booked" -lt "$number" ]; then
    printf '%s,%s,%s,%s\n' "$1" "$2" "$3" "$4" >>bookings.csv
fi
printf 'B%s\n' "$number"
