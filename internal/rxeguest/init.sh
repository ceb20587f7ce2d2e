#!/bin/dash
# The guest's first process: it loads the modules, mounts the folders that the
# host shares, and then does what the host writes to the virtio serial port.
#
#   run ID         run the script /runs/ID/cmd, its output to /runs/ID/out;
#                  "exit ID STATUS" comes back
#   kill ID NAME   send the signal to all processes of that job
#
# The host's end closing means that nobody needs this guest any more.

/bin/busybox --install -s /applets
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/applets HOME=/root TERM=dumb

die() {
	echo "init: $*"
	poweroff -f
}

mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devpts pts /dev/pts
for d in /dev/shm /run /tmp; do
	mount -t tmpfs tmpfs "$d"
done
while read -r module; do
	insmod "/lib/modules/$module.ko" || die "no module $module"
done </etc/modules

share() {
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144,$3" "$1" "$2" || die "$2 is not shared"
}
share runs /runs rw
if grep -q job /etc/shares; then share job /job rw; fi
if grep -q host /etc/shares; then
	share host /host ro
	for d in dev proc run sys tmp; do
		# A root without the folder does without it.
		[ -d "/host/$d" ] && mount -o rbind "/$d" "/host/$d"
	done
fi
ulimit -l unlimited
ip link set lo up

port=
until [ -n "$port" ]; do
	for p in /sys/class/virtio-ports/*; do
		[ -e "/dev/${p##*/}" ] && [ "$(cat "$p/name")" = agent ] && port=/dev/${p##*/}
	done
	[ -n "$port" ] || sleep 0.1
done
exec 3<>"$port"

run() {
	setsid /bin/sh "/runs/$1/cmd" </dev/null >"/runs/$1/out" 2>&1 3>&- &
	pid=$!
	echo $pid >"/run/$1"
	wait $pid
	echo "exit $1 $?" >&3
	rm "/run/$1"
}

echo ready >&3
while read -r op id arg <&3; do
	case $op in
	run) run "$id" & ;;
	kill)
		# The pid is also that of the group, once setsid has run.
		read -r pid <"/run/$id" && { kill -s "$arg" -- "-$pid" || kill -s "$arg" "$pid"; } 2>/dev/null
		;;
	*) die "the host asked for $op" ;;
	esac
done
poweroff -f
