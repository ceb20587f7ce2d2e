#!/bin/sh
# build.sh DIR: builds the Debian packages sluice, libsluice0 and libsluice-dev from
# this tree into DIR (`make deb`). The version is that of a tag v1.2.3 at HEAD, else
# BASE~gitDATE.COMMIT. Sources without git require COMMIT=, and COMMIT_TIME= in
# seconds since 1970. The same commit, Go and compiler give the same packages.
set -eu
base=0.1.0 # that of internal/version; that of libsluice.so.0's packages, too
maintainer="${DEBFULLNAME:-The Sluice Authors} <${DEBEMAIL:-sluice-rdma@users.noreply.github.com}>"
export LC_ALL=C.UTF-8 TZ=UTC

fail() { echo "make deb: $*" >&2; exit 1; }
[ "$(uname -s)" = Linux ] || fail "Debian packages are built on Linux, not $(uname -s)"
for tool in dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev dpkg-buildflags:dpkg-dev gcc:gcc strip:binutils gzip:gzip; do
	command -v "${tool%%:*}" >/dev/null || fail "${tool%%:*} is missing: it is in Debian's package ${tool##*:}"
done

mkdir -p "$1"
out=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
GO=${GO:-go}
arch=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# Which Sluice this is.
modified=
if [ -n "${COMMIT:-}" ]; then
	commit=$COMMIT time=$(date -u -d "@${COMMIT_TIME:-0}" +%Y-%m-%dT%H:%M:%SZ)
else
	read -r commit time modified <<-END
		$(deploy/commit.sh)
	END
	[ -n "$commit" ] || fail 'there is no git here: name the commit, COMMIT=... COMMIT_TIME=SECONDS'
fi
[ "$modified" = true ] || modified=
seconds=$(date -u -d "$time" +%s)
tag=$(git describe --tags --exact-match --match 'v[0-9]*' "$commit" 2>/dev/null || true)
if [ -n "$tag" ]; then
	version=${tag#v}
else
	version=$base~git$(date -u -d "@$seconds" +%Y%m%d).$(printf %.7s "$commit")
fi
[ -z "$modified" ] || version=$version+modified
export SOURCE_DATE_EPOCH="$seconds"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The programs, with Debian's hardening.
at=github.com/sluice-rdma/sluice/internal/version
stamp="-s -w -X $at.release=$version -X $at.commit=$commit -X $at.time=$time -X $at.modified=$modified"
CPPFLAGS=$(dpkg-buildflags --get CPPFLAGS)
CFLAGS="$(dpkg-buildflags --get CFLAGS | sed 's/-ffile-prefix-map=[^ ]*//') -ffile-prefix-map=$top=."
LDFLAGS="-Wl,-z,relro -Wl,-z,now"
export CPPFLAGS CFLAGS LDFLAGS CGO_CPPFLAGS="$CPPFLAGS" CGO_CFLAGS="$CFLAGS" CGO_LDFLAGS="$LDFLAGS" CGO_ENABLED=1
build="make --no-print-directory IBVERBS=yes BIN=$work/bin LIB=$work/lib PREFIX=/usr LIBDIR=/usr/lib/$triplet"
$build "STAMP=$stamp" 'GOBUILDFLAGS=-trimpath -buildvcs=false -buildmode=pie' command
$build DESTDIR="$work/all" install-libsluice

# put MODE FILE TO: one file of the package that is being made.
put() { install -D -m "$1" "$2" "$root$3"; }
# compressed FILE TO: the same, gzipped.
compressed() { put 644 "$1" "$2"; gzip -9n "$root$2"; }

# begin NAME: the folder of a package, with what each has.
begin() {
	package=$1 root=$work/$1
	mkdir -p "$root/DEBIAN"
	cat >"$work/changelog" <<-END
		$package ($version) unstable; urgency=medium

		  * Built from commit $commit${modified:+, modified}.
		    CHANGELOG.md says what changed.

		 -- $maintainer  $(date -R -u -d "@$seconds")
	END
	compressed "$work/changelog" "/usr/share/doc/$package/changelog"
}

rm -f "$out"/sluice_*_"$arch".deb "$out"/libsluice0_*_"$arch".deb "$out"/libsluice-dev_*_"$arch".deb

# needs FILE...: the packages whose libraries these use, as Depends has them.
needs() {
	mkdir -p "$work/shlibdeps/debian"
	printf 'Source: sluice\n\nPackage: %s\nArchitecture: any\n' "$package" >"$work/shlibdeps/debian/control"
	(cd "$work/shlibdeps" && dpkg-shlibdeps -O "$@") | sed -n 's/^shlibs:Depends=//p'
}

# finish SECTION DEPENDS EXTRA <DESCRIPTION: writes the control file and the package.
finish() {
	(cd "$root" && find usr etc -type f -exec md5sum {} + 2>/dev/null | sort -k 2) >"$root/DEBIAN/md5sums"
	chmod 644 "$root/DEBIAN/md5sums"
	{
		printf 'Package: %s\nSource: sluice\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$package" "$version" "$arch" "$maintainer"
		printf 'Installed-Size: %s\nSection: %s\nPriority: optional\nHomepage: https://github.com/sluice-rdma/sluice\n' "$(du -sk --apparent-size "$root" | cut -f 1)" "$1"
		printf 'Depends: %s\n' "$2"
		[ -z "$3" ] || printf '%s\n' "$3"
		echo "Description: $(cat)"
	} >"$root/DEBIAN/control"
	find "$root" -type d -exec chmod 755 {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${package}_${version}_$arch.deb"
}

begin sluice
lib=/usr/lib/$triplet
put 755 "$work/bin/sluice" /usr/bin/sluice
for name in preload virtual; do
	strip --strip-unneeded --remove-section=.comment -o "$work/$name" "$work/all$lib/libsluice-$name.so"
	put 644 "$work/$name" "$lib/sluice/libsluice-$name.so"
done
"$work/bin/sluice" completion bash >"$work/completion"
put 644 "$work/completion" /usr/share/bash-completion/completions/sluice
"$work/bin/sluice" completion zsh >"$work/completion"
put 644 "$work/completion" /usr/share/zsh/vendor-completions/_sluice
"$work/bin/sluice" completion fish >"$work/completion"
put 644 "$work/completion" /usr/share/fish/vendor_completions.d/sluice.fish
compressed cli/man/sluice.1 /usr/share/man/man1/sluice.1
compressed libsluice/man/libsluice-preload.7 /usr/share/man/man7/libsluice-preload.7
compressed CHANGELOG.md /usr/share/doc/sluice/CHANGELOG.md
put 644 deploy/deb/sluice-exporter.service /usr/lib/systemd/system/sluice-exporter.service
put 644 deploy/deb/sluice.sysusers /usr/lib/sysusers.d/sluice.conf
put 644 deploy/deb/sluice.tmpfiles /usr/lib/tmpfiles.d/sluice.conf
put 644 deploy/deb/sluice-exporter.default /etc/default/sluice-exporter
for file in deploy/grafana/* deploy/prometheus/*; do
	[ ! -f "$file" ] || put 644 "$file" "/usr/share/sluice/${file#deploy/}"
done
echo /etc/default/sluice-exporter >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "deploy/deb/sluice.$script" "$root/DEBIAN/$script"; done
deploy/deb/copyright.sh "$GO" ./cmd/sluice >"$work/copyright"
put 644 "$work/copyright" /usr/share/doc/sluice/copyright
finish net "$(needs "$root/usr/bin/sluice" "$root$lib"/sluice/libsluice-*.so), libsluice0 (= $version)" 'Recommends: ibverbs-providers, librdmacm1
Suggests: ibverbs-utils, libsluice-dev, perftest, prometheus' <<'END'
congestion control and pacing for RDMA, and models of NICs and fabric
 Sluice cuts RDMA Writes and Reads into segments, paces them and steers the
 rate by TIMELY, Swift, PowerTCP, HPCC, Poseidon and other engines. The command
 runs scenarios on models of NICs and fabric, and perftest's tests over RoCEv2
 in user space and over devices of libibverbs, and tells Prometheus about RDMA
 devices.
 .
 The library that paces programs as they are, by LD_PRELOAD, and the exporter's
 service, which is not started unless asked to, are part of this package.
END

begin libsluice0
put 644 "$work/all$lib/libsluice.so.0" "$lib/libsluice.so.0"
strip --strip-unneeded "$root$lib/libsluice.so.0"
echo "libsluice 0 libsluice0 (>= $base~)" >"$root/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
deploy/deb/copyright.sh "$GO" >"$work/copyright"
put 644 "$work/copyright" /usr/share/doc/libsluice0/copyright
finish libs "$(needs "$root$lib/libsluice.so.0")" 'Multi-Arch: same' <<'END'
congestion control and pacing under RC queue pairs of libibverbs
 A program that makes its queue pairs by this library, in place of libibverbs,
 has its RDMA Writes and Reads cut into segments, paced, and steered by a rate
 engine such as TIMELY or Swift.
END

begin libsluice-dev
mkdir -p "$root$lib"
ln -s libsluice.so.0 "$root$lib/libsluice.so"
put 644 "$work/all/usr/include/sluice.h" /usr/include/sluice.h
put 644 "$work/all$lib/pkgconfig/sluice.pc" "$lib/pkgconfig/sluice.pc"
compressed libsluice/man/sluice.3 /usr/share/man/man3/sluice.3
put 644 examples/kv-c/kv.c /usr/share/doc/libsluice-dev/examples/kv.c
put 644 examples/kv-c/Makefile /usr/share/doc/libsluice-dev/examples/Makefile
deploy/deb/copyright.sh "$GO" >"$work/copyright"
put 644 "$work/copyright" /usr/share/doc/libsluice-dev/copyright
finish libdevel "libsluice0 (= $version), libibverbs-dev" 'Multi-Arch: same
Suggests: pkg-config' <<'END'
congestion control and pacing under RC queue pairs of libibverbs - headers
 A program that makes its queue pairs by libsluice, in place of libibverbs,
 has its RDMA Writes and Reads cut into segments, paced, and steered by a rate
 engine.
 .
 This package has the header, the manual page and an example.
END
