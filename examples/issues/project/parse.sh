# Reads a size such as 10k or 3M and prints it in bytes.
bytes() {
    case $1 in
        *k) echo "${1%k}000" ;;
        *) echo "$1" ;;
    esac
}
