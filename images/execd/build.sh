#!/bin/sh
# Lays out the files of the execd image: execd and bootstrap.sh at its root, where runtimes that copy
# them into a sandbox look for them. Usage: images/execd/build.sh BIN_DIR OUT_DIR
set -eu
bin=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"
strip -o "$out/execd" "$bin/opensandbox-execd"
cp "$here/bootstrap.sh" "$out/bootstrap.sh"
chmod 755 "$out/execd" "$out/bootstrap.sh"
