package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page has the table that the presets make, and each of their parameters has a source.
func TestThePageHasTheTable(t *testing.T) {
	want, err := table()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(have), begin+"\n"+want+"\n"+end) {
		t.Error("docs/nic.md has another table: go generate ./nicmodel")
	}
}

func TestWriteNeedsAPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("# A page\n"+begin+"stale rows\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := write(path); err == nil || !strings.Contains(err.Error(), "no place") {
		t.Errorf("a page without an end: %v", err)
	}
	if err := os.WriteFile(path, []byte("before\n"+begin+"stale rows\n"+end+"after\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if s := string(text); !strings.HasPrefix(s, "before\n"+begin) || !strings.HasSuffix(s, end+"after\n") || strings.Contains(s, "stale rows") || !strings.Contains(s, "`pcie.tags`") {
		t.Errorf("%s", s)
	}
}
