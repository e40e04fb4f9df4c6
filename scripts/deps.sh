#!/bin/sh
# Installs the Debian packages that the named groups need, and only those that are missing.
# Usage: scripts/deps.sh GROUP...     groups: build run test programs bench soak
# Everything present: returns at once without touching the network.
set -eu

build="gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libjansson-dev libsqlite3-dev
       libseccomp-dev libcmocka-dev node-llhttp"
run="bash curl ca-certificates e2fsprogs nftables python3"
test="clang clang-format clang-tidy cppcheck libclang-rt-14-dev llvm python3 python3-venv python3-pip
      python3-yaml debootstrap e2fsprogs procps nftables iptables iproute2 binutils util-linux uidmap
      busybox-static musl-tools vim-tiny qemu-system-x86"
# What tests run inside sandboxes of the host image.
programs="bash python3-numpy python3-pandas nodejs default-jdk-headless golang-go gcc libc6-dev git gdb
          strace inotify-tools tmux sqlite3 tar python3-venv python3-pip python3-setuptools
          python3-wheel apt dpkg chromium"
bench="bubblewrap nftables iproute2 util-linux gcc libc6-dev python3"
soak="debootstrap"

wanted=""
for group in "$@"; do
    case "$group" in
    build) wanted="$wanted $build" ;;
    run) wanted="$wanted $run" ;;
    test) wanted="$wanted $test" ;;
    programs) wanted="$wanted $programs" ;;
    bench) wanted="$wanted $bench" ;;
    soak) wanted="$wanted $soak" ;;
    *)
        echo "deps.sh: unknown group '$group' (build run test programs bench soak)" >&2
        exit 2
        ;;
    esac
done

missing=""
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing packages:$missing" >&2
    echo "This machine has no apt-get; install their counterparts and try again." >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "Missing packages:$missing" >&2
    echo "Run as root, or install them yourself: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
attempt=1
until apt-get update -qq >"$log" 2>&1 &&
    apt-get install -y -qq --no-install-recommends $missing >>"$log" 2>&1; do
    if [ "$attempt" = 3 ]; then
        tail -n 20 "$log" >&2
        echo "Could not install:$missing" >&2
        echo "Check the network and /etc/apt/sources.list, then try again." >&2
        exit 1
    fi
    attempt=$((attempt + 1))
done
