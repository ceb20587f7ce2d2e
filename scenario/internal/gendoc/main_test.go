package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/scenario"
)

func TestPageIsFresh(t *testing.T) {
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/scenarios.md is not what the types say: run go generate ./scenario\n%s", diff)
	}
}

// The examples of the page are scenarios that load.
func TestExamplesLoad(t *testing.T) {
	blocks := strings.Split(intro, "```yaml\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		if _, err := scenario.Parse("example.yaml", []byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
