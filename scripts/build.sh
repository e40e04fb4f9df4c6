#!/bin/sh
# Configures (once) and builds. Usage: scripts/build.sh DIR JOBS [-Dvar=value...] [target...]
# `--configure-only` as a target stops after the configuration (for compile_commands.json).
set -eu
dir=$1
jobs=$2
shift 2

defines=""
targets=""
configure_only=0
for word in "$@"; do
    case "$word" in
    -D*) defines="$defines $word" ;;
    --configure-only) configure_only=1 ;;
    *) targets="$targets $word" ;;
    esac
done

if [ ! -f "$dir/build.ninja" ]; then
    mkdir -p "$dir"
    if ! cmake -S . -B "$dir" -G Ninja $defines >"$dir/configure.log" 2>&1; then
        cat "$dir/configure.log" >&2
        exit 1
    fi
fi
[ "$configure_only" = 1 ] && exit 0
# Quiet when it works; ninja prints the compiler's words when it does not.
exec ninja -C "$dir" -j "$jobs" --quiet $targets
