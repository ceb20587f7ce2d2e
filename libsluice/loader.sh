#!/bin/sh
# loader.sh DIR: makes programs find the libsluice.so.0 that was installed into DIR,
# by the loader's cache, or says how they can.
set -eu
dir=$1
if [ "$(uname -s)" != Linux ]; then exit 0; fi
PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
if command -v ldconfig >/dev/null && ldconfig -p | grep -q " => $dir/libsluice.so.0\$"; then
	echo "installed into $dir, where the loader finds it"
else
	cat <<END
installed into $dir, where the loader does not look. Let it, as root:
    echo $dir >/etc/ld.so.conf.d/libsluice.conf && ldconfig
or run programs with
    LD_LIBRARY_PATH=$dir
END
fi
if command -v pkg-config >/dev/null && ! pkg-config --exists sluice; then
	echo "pkg-config finds it with PKG_CONFIG_PATH=$dir/pkgconfig"
fi
