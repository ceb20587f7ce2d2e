#!/bin/sh
# Runs each fuzz target of one package for FUZZTIME, one after another, with one worker:
#
#	tools/fuzz/package.sh PACKAGE
#
# The package is built once for all of its targets. What a target finds lies in the package's
# testdata/fuzz; what it learns is kept where go test keeps it.
#
# UNGUIDED lists packages that run without the instrumentation by which go learns what an input
# reaches: it compiles all that a package imports once more, which takes far longer than some
# thousand inputs.
set -eu
go=${GO:-go}
case " ${UNGUIDED:-} " in
*" $1 "*) guided= ;;
*) guided='-fuzz .' ;;
esac
cd "$1"
package=$("$go" list .)
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
# shellcheck disable=SC2086 # two words or none
"$go" test -c -vet=off -ldflags='-s -w' $guided -o "$binary" .
for target in $("$binary" -test.list '^Fuzz'); do
	began=$(date +%s)
	if ! out=$("$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 10x \
		-test.fuzzcachedir "$("$go" env GOCACHE)/fuzz/$package" -test.parallel 1 2>&1); then
		printf '%s\n--- FAIL: %s %s\n' "$out" "$package" "$target"
		exit 1
	fi
	printf 'ok  \t%s %s: %s s, %s\n' "$package" "$target" $(($(date +%s) - began)) "$(printf '%s\n' "$out" | sed -n 's/^fuzz: elapsed: .*\(execs: [0-9]*\).*/\1/p' | tail -n 1)"
done
