#!/bin/sh
# Runs a test binary for those tests alone that longtests names in the package's line, for go
# test's -exec: tests of one name in other packages do not run again.
#
#	go test -exec 'tools/longtests/only.sh ROOT LIST' PACKAGE...
#
# ROOT is the module's directory, LIST what longtests printed there.
set -eu
root=$(cd "$1" && pwd -P)
list=$2
shift 2
dir=$(pwd -P)
tests=$(awk -v dir=".${dir#"$root"}" '$1 == dir { print $2 }' "$list")
[ -n "$tests" ] || { echo "$list has no tests of $dir" >&2; exit 1; }
exec "$@" "-test.run=$tests"
