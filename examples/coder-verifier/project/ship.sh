# When a parcel arrives, and what it costs.
weight_class() { # grams
    if [ "$1" -le 500 ]; then echo letter; else echo parcel; fi
}
price() { # grams zone, in cents
    echo $(($1 / 100 * 15))
}
days() { # zone
    echo 2
}
