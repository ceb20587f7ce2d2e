#!/bin/sh
# Makes a bare Debian root, clones HEAD of this checkout into it, runs a command there,
# and removes it:
#
#	tools/bare/root.sh COMMAND [ARGUMENT]...
#
# The root is debootstrap's minbase from this machine's own apt sources, with git,
# ca-certificates, make, and a copy of the Go that is here. The command runs as root in
# /root/sluice, with caches that are empty. Exits with the command's status; with 125 where no
# root can be made, having said why.
#
# KEEP=yes leaves the root there and says where it is.
set -eu

why() {
	echo "no bare root: $1" >&2
	exit 125
}

# enter ROOT COMMAND...: what runs in the namespaces of the root. Nothing that is mounted
# from here on is seen outside, so nothing of this machine is bound when ROOT is removed.
enter() {
	root=$1
	shift
	mount --bind "$root" "$root"
	cd "$root"
	mount -t proc proc proc
	mount -t sysfs sysfs sys
	# /dev as a container has it, and /dev/net/tun, by which guests reach the host.
	mount -t tmpfs -o mode=755,nosuid dev dev
	mkdir dev/pts dev/shm dev/net
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
	mount -t tmpfs -o mode=1777,nosuid,nodev shm dev/shm
	mknod -m 666 dev/null c 1 3
	mknod -m 666 dev/zero c 1 5
	mknod -m 666 dev/full c 1 7
	mknod -m 666 dev/random c 1 8
	mknod -m 666 dev/urandom c 1 9
	mknod -m 666 dev/tty c 5 0
	mknod -m 666 dev/net/tun c 10 200
	ln -s pts/ptmx dev/ptmx
	ln -s /proc/self/fd dev/fd
	ln -s fd/0 dev/stdin
	ln -s fd/1 dev/stdout
	ln -s fd/2 dev/stderr
	# Not chroot: the kernel gives a process in one no user namespace.
	mkdir -p .machine
	pivot_root . .machine
	cd /
	umount -l /.machine
	rmdir /.machine
	cd /root/sluice
	exec "$@"
}

if [ "${1:-}" = --enter ]; then
	shift
	enter "$@"
fi

[ $# -gt 0 ] || { echo 'usage: tools/bare/root.sh COMMAND [ARGUMENT]...' >&2; exit 2; }
self=$(realpath "$0")
top=$(git -C "$(dirname "$self")" rev-parse --show-toplevel)
go=${GO:-go}
command -v "$go" >/dev/null || why "\"$go\" is not on the PATH"
[ "$(uname -s)" = Linux ] || why 'this is not Linux'
[ "$(id -u)" = 0 ] || why 'it takes root'
command -v apt-get >/dev/null || why 'this is not Debian: apt-get is missing'
if ! command -v debootstrap >/dev/null; then
	echo 'installing debootstrap'
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null 2>&1 ||
		why 'debootstrap could not be installed'
fi
unshare --mount --pid --fork true 2>/dev/null || why 'no namespaces for mounts and processes (a container needs --privileged)'

# The machine's own sources, as far as they are Debian's: a line for each index that it has.
sources() {
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u
}
have=$(sources)
[ -n "$have" ] || { apt-get update -qq >/dev/null 2>&1 || :; have=$(sources); }
[ -n "$have" ] || why 'apt has no source of Debian packages'
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(echo "$have" | awk -v suite="$suite" '$3 == suite { print $2; exit }')
[ -n "$mirror" ] || why "apt has no source of Debian ${suite:-(which release this is, /etc/os-release does not say)}"

# How the machine reaches the network: proxies, and the certificates that it trusts.
settings=$(apt-config dump --no-empty Acquire | grep -v -E '^Acquire::(IndexTargets|cdrom|Changelogs|CompressionTypes|Languages)' || :)
proxy=$(apt-config dump --no-empty Acquire::http::Proxy | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
bundle=
for f in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt; do
	if [ -z "$bundle" ] && [ -n "$f" ] && [ -f "$f" ]; then bundle=$f; fi
done

root=$(mktemp -d "${TMPDIR:-/tmp}/sluice-bare.XXXXXX")
log=$root.log
finish() {
	if [ "${KEEP:-}" = yes ]; then
		echo "the root is in $root"
	else
		rm -rf --one-file-system "$root"
	fi
	rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$root"

echo "a bare root: Debian $suite with git, ca-certificates, make and $("$go" env GOVERSION)"
began=$(date +%s)
if ! http_proxy=${http_proxy:-$proxy} debootstrap --variant=minbase --include=git,ca-certificates,make "$suite" "$root" "$mirror" >"$log" 2>&1; then
	tail -n 3 "$log" >&2
	why "debootstrap failed at $mirror"
fi
echo "$have" >"$root/etc/apt/sources.list"
echo "$settings" >"$root/etc/apt/apt.conf.d/90machine"
[ ! -d /etc/apt/trusted.gpg.d ] || cp -a /etc/apt/trusted.gpg.d/. "$root/etc/apt/trusted.gpg.d/"
[ -z "$bundle" ] || cp -L "$bundle" "$root/etc/ssl/certs/machine.crt"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -a "$("$go" env GOROOT)" "$root/usr/local/go"
git clone --quiet --no-hardlinks "$top" "$root/root/sluice"
# Files that tests read where a checkout has them beside it.
if [ -n "${SLUICE_RXE_CAPTURE:-}" ]; then cp "$SLUICE_RXE_CAPTURE" "$root/root/capture.pcap.gz"; fi
if [ -n "${SLUICE_LINTERS:-}" ]; then
	mkdir "$root/root/sluice/bin"
	cp "$SLUICE_LINTERS" "$root/root/sluice/bin/"
fi
echo "it took $(($(date +%s) - began)) s"

# A login's environment, with the machine's proxies, certificates and Go modules.
set -- SLUICE_BARE=yes unshare --mount --propagation private --pid --fork --kill-child sh "$self" --enter "$root" "$@"
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY CI FUZZTIME SLUICE_DEBIAN_MIRROR SLUICE_RXE_REQUIRED; do
	eval "value=\${$name:-}"
	[ -z "$value" ] || set -- "$name=$value" "$@"
done
for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GONOPROXY; do
	value=$("$go" env "$name")
	[ -z "$value" ] || set -- "$name=$value" "$@"
done
[ -z "$bundle" ] || set -- SSL_CERT_FILE=/etc/ssl/certs/machine.crt "$@"
[ -z "${SLUICE_RXE_CAPTURE:-}" ] || set -- SLUICE_RXE_CAPTURE=/root/capture.pcap.gz "$@"
status=0
env -i HOME=/root USER=root LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" || status=$?
[ $status != 125 ] || status=1
exit $status
