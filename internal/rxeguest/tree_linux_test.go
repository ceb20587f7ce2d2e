package rxeguest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUntar(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	tr := tree{root}
	archive := tarOf(t,
		tar.Header{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./usr/lib/libx.so.1.0", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
		tar.Header{Name: "./usr/lib/libx.so.1", Typeflag: tar.TypeSymlink, Linkname: "libx.so.1.0"},
		tar.Header{Name: "./usr/bin/x", Typeflag: tar.TypeLink, Linkname: "./usr/lib/libx.so.1.0"},
		tar.Header{Name: "./usr/share/doc", Typeflag: tar.TypeReg, Size: 4},
	)
	if err := tr.untar(archive, func(name string) bool { return !strings.HasPrefix(name, "usr/share") }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/lib/libx.so.1.0", "usr/lib/libx.so.1", "usr/bin/x"} {
		if b, err := root.ReadFile(name); err != nil || string(b) != "data" {
			t.Errorf("%s holds %q, %v, want data", name, b, err)
		}
	}
	if _, err := root.Stat("usr/share"); err == nil {
		t.Error("a file that nobody wants was unpacked")
	}
	if got, err := tr.one("usr/lib/libx.so.1.*"); err != nil || got != "usr/lib/libx.so.1.0" {
		t.Errorf("one: %q, %v", got, err)
	}
	if _, err := tr.one("usr/lib/*"); err == nil {
		t.Error("one of two files is found")
	}
}

func TestUntarStaysInside(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../outside", Typeflag: tar.TypeReg, Size: 4},
		{Name: "dir/../../outside", Typeflag: tar.TypeReg, Size: 4},
		{Name: "etc/link", Typeflag: tar.TypeLink, Linkname: "../../outside"},
		{Name: "dev/null", Typeflag: tar.TypeChar},
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "tree")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := (tree{root}).untar(tarOf(t, h), func(string) bool { return true }); err == nil {
			t.Errorf("%s: unpacked", h.Name)
		}
		_ = root.Close()
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 1 {
			t.Errorf("%s: beside the tree are now %v, %v", h.Name, entries, err)
		}
	}
}

// tarOf returns an archive whose regular files hold "data".
func tarOf(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("data")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
