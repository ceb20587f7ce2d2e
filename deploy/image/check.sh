#!/bin/sh
# check.sh IMAGE: the archive is an OCI image layout whose digests and sizes are
# right, and which docker's and OCI's readers read (skopeo, where it is); unpacked,
# and where it is called by root, sluice runs in it.
set -eu
image=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
fail() { echo "check.sh: $image: $*" >&2; exit 1; }

mkdir "$work/layout" "$work/root"
tar -C "$work/layout" -xf "$image"
cd "$work/layout"
grep -q '"imageLayoutVersion": "1.0.0"' oci-layout || fail 'it is no OCI image layout'
# each FILE: digest and size of what a file names, "DIGEST SIZE" a line.
each() { tr -d '\n' <"$1" | grep -o '"digest": "sha256:[0-9a-f]*", *"size": [0-9]*' | sed 's/.*sha256:\([0-9a-f]*\)".* \([0-9]*\)$/\1 \2/'; }
right() {
	[ "$(sha256sum "blobs/sha256/$1" | cut -d ' ' -f 1)" = "$1" ] || fail "the content of blob $1 is another"
	[ "$(stat -c %s "blobs/sha256/$1")" = "$2" ] || fail "the size of blob $1 is not $2"
}
each index.json >"$work/manifests"
[ "$(wc -l <"$work/manifests")" = 1 ] || fail 'its index does not name one manifest'
read -r manifest bytes <"$work/manifests"
right "$manifest" "$bytes"
each "blobs/sha256/$manifest" >"$work/blobs"
[ "$(wc -l <"$work/blobs")" = 2 ] || fail 'its manifest does not name a configuration and a layer'
while read -r digest bytes; do right "$digest" "$bytes"; done <"$work/blobs"
config=$(sed -n 1s/' .*'//p "$work/blobs") layer=$(sed -n 2s/' .*'//p "$work/blobs")
grep -q "\"Config\": \"blobs/sha256/$config\".*\"Layers\": \[\"blobs/sha256/$layer\"\]" manifest.json || fail "docker's manifest names other blobs"
diff=$(gzip -dc "blobs/sha256/$layer" | sha256sum | cut -d ' ' -f 1)
grep -q "\"diff_ids\": \[\"sha256:$diff\"\]" "blobs/sha256/$config" || fail 'the configuration names another layer'
[ "$(find blobs -type f | wc -l)" = 3 ] || fail 'it has blobs that nothing names'
version=$(sed -n 's/.*"org.opencontainers.image.version": "\(.*\)",/\1/p' "blobs/sha256/$config")
echo "ok: OCI image layout, version $version"

if command -v skopeo >/dev/null; then
	for form in oci-archive docker-archive; do
		skopeo inspect "$form:$image" >"$work/inspected" 2>&1 || { cat "$work/inspected" >&2; fail "skopeo does not read it as $form"; }
		grep -q "\"org.opencontainers.image.version\": \"$version\"" "$work/inspected" || fail "skopeo finds no version by $form"
	done
	echo 'ok: skopeo reads it as oci-archive and as docker-archive'
fi

if [ "$(id -u)" != 0 ]; then
	echo 'not root: sluice was not run in it'
	exit 0
fi
tar -C "$work/root" --numeric-owner -xzf "blobs/sha256/$layer"
entry=$(sed -n 's/.*"Entrypoint": \["\(.*\)"\].*/\1/p' "blobs/sha256/$config")
# inside COMMAND: in a process tree and mounts of its own, as an engine would.
inside() { unshare --mount --pid --fork --ipc --uts chroot "$work/root" "$@"; }
case "$(inside "$entry" version)" in
"sluice $version, commit "*) ;;
*) fail "sluice version in it is not $version" ;;
esac
inside "$entry" run quickstart >"$work/quickstart" || fail "sluice run quickstart exits with $?"
grep -q '^TIMELY ' "$work/quickstart" || fail 'sluice run quickstart has no table'
inside sh -c 'dpkg --verify sluice libsluice0' >"$work/verified"
[ ! -s "$work/verified" ] || fail 'files of the packages are missing or changed'
echo 'ok: sluice version and sluice run quickstart in it'
