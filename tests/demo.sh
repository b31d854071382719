#!/usr/bin/env bash
# What noclobber does, on a real tree, in a minute: each step is announced and
# then checked, and the first that ends otherwise ends the demo with status 1.
#
# Everything is in one temporary directory; your own sessions, receipts and
# daemon are not touched.
set -euo pipefail

home=$(mktemp -d "${TMPDIR:-/tmp}/noclobber-demo.XXXXXX")
export XDG_STATE_HOME=$home/state XDG_CONFIG_HOME=$home/config
export XDG_RUNTIME_DIR=$home/run XDG_CACHE_HOME=$home/cache
unset NOCLOBBER_SESSION NOCLOBBER_SOCKET NOCLOBBER_COMMAND
mkdir -m 700 "$home/run"
finish() {
    noclobber daemon stop >/dev/null 2>&1 || true
    rm -rf "$home"
}
trap finish EXIT

tree=$home/shop
mkdir "$tree"
cd "$tree"
git init -q -b main .

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# One command of the agent's session. Prints its first line, runs it, keeps its
# status and what it printed.
agent() {
    printf '  $ %s\n' "${1%%$'\n'*}"
    status=0
    noclobber-exec --session demo -- bash -c "$1" >"$home/out" 2>"$home/err" ||
        status=$?
    sed 's/^/  | /' "$home/out" "$home/err" | awk '
        NR <= 6 { print }
        NR == 7 { print "  | ..." }'
}
passes() { [ "$status" = 0 ] || die "that should have passed (exit $status)"; }
refused() { [ "$status" != 0 ] || die "that should have been refused"; }
holds() { # FILE LINES
    local lines
    lines=$(wc -l <"$1")
    [ "$lines" -eq "$2" ] || die "$1 has $lines lines, and not $2"
    printf '  %s: %s lines\n' "$1" "$lines"
}

for file in prices.csv stock.csv notes.txt; do
    seq 5000 | sed 's/^/item /' >"$file"
done
cp prices.csv "$home/prices.csv"

title "1. An agent reads the first 200 of 5,000 lines"
agent 'head -n 200 prices.csv'
passes

title "2. and writes back what it got: 4,800 lines would be gone. Refused:"
agent "cat > prices.csv <<'END'
$(cat "$home/out")
END"
refused
grep -q "sed -n '201," "$home/err" ||
    die "the message does not say how to see the rest"
cmp -s prices.csv "$home/prices.csv" || die "prices.csv was changed"
holds prices.csv 5000

title "3. It reads the rest as well, and rewrites the file: passes"
agent "sed -n '201,2600p' prices.csv"
agent "sed -n '2601,5000p' prices.csv"
agent 'seq 5000 > prices.csv'
passes
holds prices.csv 5000
cmp -s prices.csv "$home/prices.csv" && die "prices.csv was not rewritten"

title "4. sed -i on a file that nobody read, for sed read all of it: passes"
agent "sed -i 's/item/part/' stock.csv"
passes
holds stock.csv 5000
grep -q 'part 5000' stock.csv || die "stock.csv was not edited"

title "5. Appending destroys nothing: passes"
agent 'head -n 3 notes.txt; echo one more >> notes.txt'
passes
holds notes.txt 5001

title "6. What noclobber kept of it"
printf '  $ noclobber log\n'
noclobber log | sed 's/^/  | /'
noclobber log --json >"$home/log"
grep -q '"verdict": *"deny"' "$home/log" || die "no receipt of the refusal"
printf '  $ noclobber show prices.csv\n'
noclobber show prices.csv >"$home/shown" || die "show failed"
sed 's/^/  | /' "$home/shown"
printf '\nDone: each step ended as announced.\n'
