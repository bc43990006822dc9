# Turns the title of a page into the last part of its address.
slug() {
    printf '%s\n' "$1" | tr 'A-Z' 'a-z' | tr ' ' '_'
}
