#!/bin/bash
# check.sh DIR: installs the packages of DIR (`make deb`) into this Debian system by
# apt-get, uses them as a person would, and removes them again. As root, in a system
# that may be changed, such as a bare root of debootstrap. It exits with 1 at the
# first thing that is not as it should be.
set -euo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
debs=$(cd "$1" && pwd)
work=$(mktemp -d)
children=()
trap 'for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done; rm -rf "$work"' EXIT

ok() { echo "ok: $*"; }
fail() {
	echo "check.sh: $*" >&2
	tail -n 20 "$work"/* >&2 2>/dev/null || true
	exit 1
}
apt() { apt-get -o DPkg::Lock::Timeout=600 "$@" >"$work/apt" 2>&1 || fail "apt-get $*"; }
install() { apt install -y --no-install-recommends "$@"; }
# wait_for FILE PATTERN: until a line of a file matches, 20 seconds at most.
wait_for() {
	for _ in $(seq 200); do
		if grep -q "$2" "$1"; then return; fi
		sleep 0.1
	done
	fail "$1 never had $2"
}
# get PORT: the metrics, by bash alone.
get() {
	exec 3<>"/dev/tcp/127.0.0.1/$1"
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
	cat <&3
	exec 3>&-
}

[ "$(id -u)" = 0 ] || fail 'it has to be root'
lib=/usr/lib/$(dpkg -L libc6 | sed -n 's|.*/\([^/]*-linux-gnu[^/]*\)/libc.so.6$|\1|p')

# The command, with nothing but what it depends on.
install "$debs"/libsluice0_*.deb "$debs"/sluice_*.deb
version=$(dpkg-query -W -f '${Version}' sluice)
sluice version >"$work/version"
grep -q "^sluice $version, commit [0-9a-f]\{12\}" "$work/version" || fail "sluice version does not say $version"
grep -q 'libibverbs: built in' "$work/version" || fail 'devices of libibverbs are left out'
ok "$(head -n 1 "$work/version")"
sluice run quickstart >"$work/quickstart" || fail "sluice run quickstart exits with $?"
ok "sluice run quickstart: $(wc -l <"$work/quickstart") lines"
sluice run quickstart --quiet --json - >"$work/json"
grep -q "\"sluice\": \"$version\"" "$work/json" || fail 'its JSON has another version'
sluice devices >"$work/devices" || fail "sluice devices exits with $?"
LD_PRELOAD=$lib/sluice/libsluice-preload.so ls / >"$work/preload" 2>&1 || fail 'a program does not start with libsluice-preload.so'
! grep -q 'ERROR: ld.so' "$work/preload" || fail 'libsluice-preload.so is not loaded'
sluice virtual -- ls /sys/class/infiniband | grep -qx mlx5_0 || fail 'sluice virtual does not show its device'
for page in man1/sluice.1 man7/libsluice-preload.7; do gzip -t "/usr/share/man/$page.gz"; done
ok 'devices, preload library, manual pages'

# Completion, as bash does it.
install bash-completion
bash -c '
	set +u
	source /usr/share/bash-completion/bash_completion
	source /usr/share/bash-completion/completions/sluice
	COMP_WORDS=(sluice run quickst) COMP_CWORD=2 COMP_LINE="sluice run quickst" COMP_POINT=18 COMP_TYPE=9
	__start_sluice
	echo "${COMPREPLY[*]}"' >"$work/completion" 2>&1
grep -qx 'quickstart *' "$work/completion" || fail 'bash does not complete "sluice run quickst"'
ok 'bash completes "sluice run quickst"'

# The service's parts. Reinstalled, the package makes its group and folder now that
# systemd is there.
install systemd
apt install -y --reinstall "$debs"/sluice_*.deb
group=$(getent group sluice | cut -d: -f3)
[ -n "$group" ] || fail 'there is no group sluice'
[ "$(stat -c '%a %U %G' /run/sluice)" = '2770 root sluice' ] || fail "/run/sluice: $(stat -c '%a %U %G' /run/sluice)"
systemd-analyze verify --man=no /usr/lib/systemd/system/sluice-exporter.service >"$work/verify" 2>&1 || fail 'the unit is wrong'
systemd-analyze security --offline=true --threshold=20 /usr/lib/systemd/system/sluice-exporter.service >"$work/security" || fail 'the unit is exposed by more than 2.0'
ok "systemd-analyze security: $(tail -n 1 "$work/security" | sed 's/^[^A-Za-z]*//')"

# The exporter as the unit runs it: no user that anybody knows, no capability, the
# group. It tells of a process of root's, which has a network of its own: its ports
# are fixed.
install iproute2
SLUICE_RUN=/run/sluice setpriv --reuid=64321 --regid=64321 --groups="$group" --inh-caps=-all --bounding-set=-all --no-new-privs \
	sluice exporter --web.listen-address 127.0.0.1:0 >"$work/exporter" 2>&1 &
exporter=$!
children+=("$exporter")
SLUICE_METRICS=1 SLUICE_RUN=/run/sluice unshare -n sh -c 'ip link set lo up && exec sluice perf write_bw -d soft:lo' >"$work/perf" 2>&1 &
perf=$!
children+=("$perf")
for _ in $(seq 200); do
	if [ -S "/run/sluice/$perf.sock" ]; then break; fi
	sleep 0.1
done
wait_for "$work/exporter" 'http://127.0.0.1:'
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$work/exporter")
for _ in $(seq 100); do # until the process has opened its device
	get "$port" >"$work/metrics"
	if grep -q "pid=\"$perf\"" "$work/metrics"; then break; fi
	sleep 0.1
done
head -n 1 "$work/metrics" | grep -q '200 OK' || fail 'the exporter does not answer'
grep -q "device=\"soft:lo\".*pid=\"$perf\"" "$work/metrics" || fail 'the exporter does not tell of a process that publishes'
kill "$perf" "$exporter"
wait "$exporter" || fail "the exporter exits with $?"
ok "sluice exporter, scraped: $(grep -c '^[a-z]' "$work/metrics") samples"

# A C program against the library.
install gcc libc6-dev make pkg-config "$debs"/libsluice-dev_*.deb
cat >"$work/program.c" <<'END'
#include <sluice.h>
#include <stdio.h>

int main(void)
{
	struct sluice_options o;
	sluice_options_init(&o);
	puts(sluice_version());
	for (const char *const *s = sluice_schemes(); *s; s++)
		puts(*s);
	return o.size != sizeof(o);
}
END
# shellcheck disable=SC2046 # flags are words
gcc -Wall -Werror -o "$work/program" "$work/program.c" $(pkg-config --cflags --libs sluice) 2>"$work/gcc" || fail 'a C program does not compile'
"$work/program" >"$work/schemes" || fail "the C program exits with $?"
grep -qw timely "$work/schemes" || fail 'sluice_schemes has no timely'
ldd "$work/program" | grep -q "libsluice.so.0 => .*$(basename "$lib")/libsluice.so.0" || fail 'the loader finds another libsluice.so.0'
[ "$(pkg-config --modversion sluice)" = "$(head -n 1 "$work/schemes")" ] || fail "pkg-config has version $(pkg-config --modversion sluice)"
cp /usr/share/doc/libsluice-dev/examples/* "$work"
make -s -C "$work" CC=gcc >"$work/make" 2>&1 || fail 'the example does not build'
gzip -t /usr/share/man/man3/sluice.3.gz
ok "a C program: version and engines $(tr '\n' ' ' <"$work/schemes")"

# Every file is as packed; and none is left when all is removed.
dpkg --verify sluice libsluice0 libsluice-dev >"$work/verified"
[ ! -s "$work/verified" ] || fail 'files are not as they were packed'
dpkg -L sluice libsluice0 libsluice-dev | sort -u | while read -r file; do [ -d "$file" ] || echo "$file"; done >"$work/files"
apt purge -y sluice libsluice0 libsluice-dev
while read -r file; do [ ! -e "$file" ] || fail "$file is left behind"; done <"$work/files"
! ldconfig -p | grep -q libsluice || fail "the loader's cache still has libsluice"
ok "removed, with all $(wc -l <"$work/files") files"
