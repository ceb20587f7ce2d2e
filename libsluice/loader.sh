#!/bin/sh
# loader.sh DIR: makes programs find the libsluice.so.0 that was installed into DIR,
# by the loader's cache, or says how they can.
set -eu
dir=$1
[ "$(uname -s)" = Linux ] || exit 0
PATH=$PATH:/usr/sbin:/sbin
if command -v ldconfig >/dev/null && ldconfig -NXv 2>/dev/null | grep -q "^$dir:"; then
	if [ "$(id -u)" = 0 ]; then
		ldconfig
		echo "installed into $dir, where programs find it"
	else
		echo "installed into $dir; programs find it after root has run: ldconfig"
	fi
else
	cat <<END
installed into $dir, where the loader does not look. Let it, as root:
    echo $dir >/etc/ld.so.conf.d/libsluice.conf && ldconfig
or run programs with
    LD_LIBRARY_PATH=$dir
END
fi
if command -v pkg-config >/dev/null && ! pkg-config --exists sluice; then
	echo "pkg-config finds it with"
	echo "    PKG_CONFIG_PATH=$dir/pkgconfig"
fi
