#!/bin/sh
# commit.sh: prints the commit of this tree, its time in RFC 3339, and whether the tree has
# changes (true or false). It prints nothing where the tree is not one of git's.
cd "$(dirname "$0")/.." || exit
top=$(git rev-parse --show-toplevel 2>/dev/null) && [ "$top" = "$(pwd -P)" ] || exit 0
changes=$(git status --porcelain) || exit
modified=false
[ -z "$changes" ] || modified=true
TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format="%H %cd $modified"
