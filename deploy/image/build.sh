#!/bin/sh
# build.sh DIR: makes a container image of the packages in DIR (`make image`):
# DIR/sluice-image.tar, an OCI image layout with docker's manifest beside its index,
# so that podman, skopeo and docker load it. It is Debian's smallest root with the
# packages installed; neither an engine nor a daemon is needed. As root, on Debian.
set -eu
export LC_ALL=C.UTF-8 TZ=UTC DEBIAN_FRONTEND=noninteractive
fail() { echo "make image: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail 'a Debian root is made by root only'
for tool in debootstrap dpkg-deb unshare; do
	command -v $tool >/dev/null || fail "$tool is missing: apt-get install debootstrap dpkg util-linux"
done

out=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
debs=$(ls "$out"/libsluice0_*.deb "$out"/sluice_*.deb) || fail "there are no packages in $out: make deb"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
# The machine's own mirror.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^Debian $suite main //p" | head -n 1)
[ -n "$mirror" ] || fail "apt has no mirror of Debian $suite: apt-get update"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
root=$work/root

# What the packages want of Debian comes with the root; then they install offline.
wanted=$(for deb in $debs; do
	dpkg-deb -f "$deb" Depends
	dpkg-deb -f "$deb" Recommends
done | tr ',' '\n' | sed 's/^ *//; s/[ (|].*//' | grep -v -e sluice -e '^$' | sort -u | paste -sd , -)
echo "Debian $suite from $mirror, with $wanted"
# Its mounts are in a namespace of their own, and go with it.
unshare -m debootstrap --variant=minbase --include="$wanted" "$suite" "$root" "$mirror" >"$work/log" 2>&1 || {
	tail -n 5 "$work/log" >&2
	fail 'debootstrap failed'
}
mkdir "$root/packages" "$root/work"
for deb in $debs; do cp "$deb" "$root/packages"; done
chroot "$root" sh -c 'dpkg --install /packages/*.deb' >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail 'the packages do not install'; }
rm -rf "$root/packages" "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/var/lib/dpkg/*-old "${root:?}"/dev/* "${root:?}"/run/* "$root/etc/resolv.conf" "$root/etc/hostname"
cat >"$root/etc/apt/sources.list" <<END
deb http://deb.debian.org/debian $suite main
END

field() { chroot "$root" sluice version --json | sed -n "s/^  \"$1\": \"\(.*\)\",\{0,1\}\$/\1/p"; }
version=$(field sluice) commit=$(field commit) created=$(field commit_time) arch=$(field arch)

# The layout: a blob for the files, one for how to run them, one that names the two.
layout=$work/layout blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"
sum() { sha256sum "$1" | cut -d ' ' -f 1; }
size() { stat -c %s "$1"; }
# blob FILE: keeps it under its digest, and says that.
blob() {
	digest=$(sum "$1")
	mv "$1" "$blobs/$digest"
	echo "$digest"
}

tar -C "$root" --sort=name --numeric-owner --xattrs --mtime="$created" --clamp-mtime --pax-option=delete=atime,delete=ctime -cf "$work/layer.tar" .
diff=$(sum "$work/layer.tar")
gzip -9n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")

about='"org.opencontainers.image.title": "sluice",
    "org.opencontainers.image.description": "congestion control and pacing for RDMA, and models of NICs and fabric",
    "org.opencontainers.image.version": "'$version'",
    "org.opencontainers.image.revision": "'$commit'",
    "org.opencontainers.image.created": "'$created'",
    "org.opencontainers.image.source": "https://github.com/sluice-rdma/sluice",
    "org.opencontainers.image.licenses": "Apache-2.0"'
cat >"$work/config" <<END
{
  "created": "$created",
  "architecture": "$arch",
  "os": "linux",
  "config": {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    "Entrypoint": ["/usr/bin/sluice"],
    "WorkingDir": "/work",
    "ExposedPorts": {"9861/tcp": {}},
    "Labels": {
    $about
    }
  },
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff"]},
  "history": [{"created": "$created", "created_by": "sluice: make image, commit $commit"}]
}
END
config=$(blob "$work/config")
cat >"$work/manifest" <<END
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:$config", "size": $(size "$blobs/$config")},
  "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:$layer", "size": $(size "$blobs/$layer")}],
  "annotations": {
    $about
  }
}
END
manifest=$(blob "$work/manifest")
tag=$(printf %s "$version" | tr -c 'A-Za-z0-9._-' -) # what a tag may have
cat >"$layout/index.json" <<END
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "manifests": [{
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "digest": "sha256:$manifest",
    "size": $(size "$blobs/$manifest"),
    "platform": {"architecture": "$arch", "os": "linux"},
    "annotations": {"org.opencontainers.image.ref.name": "$tag", "io.containerd.image.name": "docker.io/library/sluice:$tag"}
  }]
}
END
echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
cat >"$layout/manifest.json" <<END
[{"Config": "blobs/sha256/$config", "RepoTags": ["sluice:$tag"], "Layers": ["blobs/sha256/$layer"]}]
END
tar -C "$layout" --sort=name --numeric-owner --owner=0 --group=0 --mtime="$created" -cf "$work/image.tar" blobs index.json manifest.json oci-layout
"$top/deploy/image/check.sh" "$work/image.tar"
mv "$work/image.tar" "$out/sluice-image.tar"
echo "bin/sluice-image.tar: sluice:$tag, $(du -h "$out/sluice-image.tar" | cut -f 1)" | sed "s|^bin|$1|"
