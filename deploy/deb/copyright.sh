#!/bin/sh
# copyright.sh GO [PACKAGE...]: the copyright file of a Debian package: Sluice's own,
# and the licence of each Go module that is linked into these packages.
set -eu
GO=$1
shift

# entry NAME FOLDER: the licences in a folder. Those that Debian has are named only.
entry() {
	echo
	echo "$1"
	echo
	for file in "$2"/LICENSE* "$2"/COPYING* "$2"/*.LICENSE "$2"/NOTICE*; do
		[ -f "$file" ] || continue
		if grep -q 'Apache License' "$file" && grep -q 'Version 2.0' "$file"; then
			grep -h '^ *Copyright [0-9(]' "$file" | sed 's/^ */    /' || true
			echo '    Under the Apache License, version 2.0:'
			echo '    /usr/share/common-licenses/Apache-2.0'
		else
			sed 's/[[:space:]]*$//; s/^/    /' "$file"
		fi
	done
}

cat <<END
Sluice, https://github.com/sluice-rdma/sluice

Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0. On Debian systems its text is in
/usr/share/common-licenses/Apache-2.0.
END
[ $# -gt 0 ] || exit 0

cat <<END

The program has in it what follows.
END
entry 'Go (https://go.dev), its library' "$("$GO" env GOROOT)"
case " $* " in
*' ./cmd/sluice '*) entry 'uPlot (https://github.com/leeoniya/uPlot), in reports' bench/internal/report/assets ;;
esac
"$GO" list -deps -tags ibverbs -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$@" | sort -u |
	while read -r path version dir; do entry "$path $version" "$dir"; done
