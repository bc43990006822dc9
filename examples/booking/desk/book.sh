# Books a flight: appends a line to bookings.csv and prints its code. Arguments: origin, destination, day, seats.
# An interrupted booking is repeated with the same key (FLYBALL_CALL), and is made once.
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
