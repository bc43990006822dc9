# Turns a page title into the last part of its URL.
slug() {
    printf '%s\n' "$1" | tr 'A-Z' 'a-z' | tr ' ' '_'
}
