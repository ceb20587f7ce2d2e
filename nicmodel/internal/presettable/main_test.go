package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/outfile"
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
	if _, written, _, err := outfile.CutSection(string(have), section); err != nil || written != "\n"+want+"\n" {
		t.Errorf("docs/nic.md has another table, error %v: go generate ./nicmodel", err)
	}
	if !strings.Contains(want, "`pcie.tags`") {
		t.Errorf("%s", want)
	}
}
