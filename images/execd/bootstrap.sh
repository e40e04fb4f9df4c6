#!/bin/sh
# The first program of a sandbox that another runtime starts: /opt/opensandbox/bootstrap.sh PROGRAM...
# It prepares what needs a shell, then becomes execd, which is process 1 from there on: execd serves
# its API, starts the entrypoint (BOOTSTRAP_CMD, "-c text", PROGRAM..., or a shell), reaps orphans,
# passes signals on and ends with the entrypoint's status.
#
#   OPENSANDBOX_DIR              folder of execd and what comes with it (/opt/opensandbox)
#   EXECD                        the program (OPENSANDBOX_DIR/execd)
#   EXECD_ENVS                   file of variables for commands (OPENSANDBOX_DIR/.env)
#   EXECD_BOOTSTRAP_PRE_SCRIPT   a shell script that is read here first
#   OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT
#                                truthy: traffic is inspected; wait for the certificate of the
#                                authority that does it and have it trusted
#   BOOTSTRAP_CA_WAIT            seconds to wait for it (300)
set -u

dir=${OPENSANDBOX_DIR:-/opt/opensandbox}
ca=$dir/mitmproxy-ca-cert.pem
merged=$dir/merged-ca-certificates.pem

say() {
    echo "bootstrap: $*" >&2
}

is_true() {
    case "$1" in
    1 | [Tt][Rr][Uu][Ee] | [Yy][Ee][Ss] | [Oo][Nn]) return 0 ;;
    *) return 1 ;;
    esac
}

# Nothing may run before the certificate is there: until then nobody has said that the rules for
# outgoing traffic are in place.
wait_for_ca() {
    left=${BOOTSTRAP_CA_WAIT:-300}
    while [ ! -s "$ca" ]; do
        if [ "$left" -le 0 ]; then
            say "$ca did not appear within ${BOOTSTRAP_CA_WAIT:-300} s; not starting"
            exit 1
        fi
        left=$((left - 1))
        sleep 1
    done
}

# Each of these is there in some images only; one that fails leaves the merged file.
trust_in_system() {
    if command -v update-ca-certificates >/dev/null 2>&1; then
        mkdir -p /usr/local/share/ca-certificates &&
            cp "$ca" /usr/local/share/ca-certificates/opensandbox-egress.crt &&
            update-ca-certificates >/dev/null 2>&1 || say "update-ca-certificates failed"
    elif command -v update-ca-trust >/dev/null 2>&1; then
        mkdir -p /etc/pki/ca-trust/source/anchors &&
            cp "$ca" /etc/pki/ca-trust/source/anchors/opensandbox-egress.pem &&
            update-ca-trust extract >/dev/null 2>&1 || say "update-ca-trust failed"
    fi
    if command -v certutil >/dev/null 2>&1; then
        store=${HOME:-/root}/.pki/nssdb
        mkdir -p "$store" && { [ -f "$store/cert9.db" ] || certutil -d "sql:$store" -N --empty-password; } &&
            certutil -d "sql:$store" -A -t "C,," -n opensandbox-egress -i "$ca" ||
            say "certutil failed"
    fi
}

find_bundle() {
    for python in python3 python; do
        file=$("$python" -c 'import certifi; print(certifi.where())' 2>/dev/null) && [ -s "$file" ] &&
            echo "$file" && return
    done
    for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
        /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        [ -s "$file" ] && echo "$file" && return
    done
}

# For programs that bring their own list of authorities.
trust_in_programs() {
    bundle=$(find_bundle)
    if { [ -z "$bundle" ] || cat "$bundle"; } >"$merged" && cat "$ca" >>"$merged"; then
        export REQUESTS_CA_BUNDLE="$merged" SSL_CERT_FILE="$merged"
    else
        say "cannot write $merged"
    fi
    export NODE_EXTRA_CA_CERTS="$ca"
}

if is_true "${OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT:-}"; then
    wait_for_ca
    trust_in_system
    trust_in_programs
fi

export EXECD_ENVS="${EXECD_ENVS:-$dir/.env}"
case "$EXECD_ENVS" in
*/*) mkdir -p "${EXECD_ENVS%/*}" 2>/dev/null ;;
esac
if ! { : >>"$EXECD_ENVS"; } 2>/dev/null; then
    say "cannot make $EXECD_ENVS"
fi

if [ -n "${EXECD_BOOTSTRAP_PRE_SCRIPT:-}" ] && [ -r "$EXECD_BOOTSTRAP_PRE_SCRIPT" ]; then
    set +u # the script is not ours
    . "$EXECD_BOOTSTRAP_PRE_SCRIPT"
fi

exec "${EXECD:-$dir/execd}" --bootstrap -- "$@"
