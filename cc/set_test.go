package cc_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
)

func TestSets(t *testing.T) {
	type config struct{ A, B int }
	s := cc.Scheme{
		Name:          "x",
		DefaultConfig: func() any { return &config{1, 2} },
		Sets:          []cc.Set{cc.NewSet("artefact", "its code", func() config { return config{3, 4} })},
	}
	for set, want := range map[string]config{"": {1, 2}, "paper": {1, 2}, "artefact": {3, 4}} {
		got, err := s.ConfigOf(set)
		if err != nil || *got.(*config) != want {
			t.Errorf("%q: %v, %v, want %v", set, got, err, want)
		}
	}
	if _, err := s.ConfigOf("artifact"); err == nil || !strings.Contains(err.Error(), `no set of parameters called "artifact"`) || !strings.Contains(err.Error(), "artefact") {
		t.Errorf("another: %v", err)
	}
}
