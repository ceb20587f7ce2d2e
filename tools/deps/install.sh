#!/bin/sh
# Installs the Debian packages without which some tests are skipped: a C compiler, ip,
# libibverbs and librdmacm with their tools and others' programs that use them, a browser; with the argument all also
# Prometheus (100 MB), Slurm, what builds Debian packages and the tests of rdma-core; with the argument k8s etcd
# alone. It says what it does, does it as root only, and fails at nothing: tests say themselves what they skip.
set -u
wanted='gcc libc6-dev pkg-config iproute2 libibverbs-dev librdmacm-dev ibverbs-providers ibverbs-utils rdmacm-utils perftest ucx-utils libfabric-bin qperf fio chromium'
[ "${1:-}" != all ] || wanted="$wanted prometheus slurmctld slurmd slurm-client slurm-wlm-basic-plugins dpkg-dev python3-pyverbs"
[ "${1:-}" != k8s ] || wanted=etcd-server

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo 'not Debian: tests that want a C compiler, libibverbs, librdmacm, perftest, Chromium, Prometheus or Slurm are skipped where these are missing'
	exit 0
fi
missing=
for p in $wanted; do
	case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
	*'ok installed') ;;
	*) missing="$missing $p" ;;
	esac
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "not root: some tests are skipped for want of packages; install them with: apt-get install$missing"
	exit 0
fi
echo "installing$missing (make test DEPS=no leaves them out)"
log=$(mktemp)
policy=
case $missing in
*prometheus* | *slurm* | *etcd*) # as programs, not as services on their ports
	[ -e /usr/sbin/policy-rc.d ] || policy=/usr/sbin/policy-rc.d
	[ -z "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy; }
	;;
esac
trap 'rm -f "$log" $policy' EXIT
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 3 "$log"
	echo 'they could not be installed: some tests are skipped'
fi
case $missing in
*prometheus* | *slurm* | *etcd*) systemctl -q disable prometheus.service slurmctld.service slurmd.service etcd.service >/dev/null 2>&1 ;; # nor at the next boot
esac
exit 0
