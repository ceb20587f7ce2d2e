#!/bin/sh
# What a newcomer does first, in a bare root made by root.sh: the README's two commands, by an
# ordinary user (make test alone, which says what it skips) and then by root, with caches
# that are empty for each.
set -eu

# timed NAME COMMAND...: runs the command and adds its time to the list that is printed
# last.
times=
timed() {
	name=$1
	shift
	echo "== $name"
	began=$(date +%s)
	status=0
	"$@" || status=$?
	times="$times$(printf '%-28s %5d s, exit status %d' "$name" $(($(date +%s) - began)) $status)
"
	if [ $status != 0 ]; then
		printf '%s' "$times"
		exit $status
	fi
}

as_newcomer() {
	setpriv --reuid newcomer --regid newcomer --init-groups env HOME=/home/newcomer USER=newcomer sh -c 'cd ~/sluice && "$@"' sh "$@"
}

useradd --create-home newcomer
cp -a . /home/newcomer/sluice
chown -R newcomer: /home/newcomer/sluice
timed 'make test, an ordinary user' as_newcomer make test
rm -rf /home/newcomer/go /home/newcomer/.cache
timed 'make run, as root' make run
timed 'make test, as root' make test
printf '\n%s' "$times"
