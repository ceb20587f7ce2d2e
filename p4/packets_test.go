package p4

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/stf"
)

// The packet tests of all programs, those of Sluice and those of testdata. Programs for Tofino do the same on both chips.
func TestPacketFiles(t *testing.T) {
	var files []string
	for _, dir := range []string{".", "testdata"} {
		fs, err := filepath.Glob(filepath.Join(dir, "*.stf"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fs...)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { packetFile(t, f, Options{}) })
		if strings.Contains(f, "tna") {
			t.Run(filepath.Base(f)+"/Tofino2", func(t *testing.T) { packetFile(t, f, Options{Target: "tofino2", Define: []string{"INT_HOPS=6"}}) })
		}
	}
}

func packetFile(t *testing.T, f string, o Options) {
	t.Helper()
	p, err := Load(strings.TrimSuffix(f, ".stf")+".p4", o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stf.Parse(f, text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := stf.Run(p, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Packets == 0 {
		t.Error("no packet was sent")
	}
	for _, x := range r.Failures {
		t.Errorf("%s:%d: %s", f, x.Line, x.Text)
	}
}
