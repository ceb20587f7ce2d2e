package scenario_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// Each list of mappings has a section with the keys of its elements, whether a scenario's defaults have
// elements or not.
func TestListsHaveSections(t *testing.T) {
	all := scenario.Schema()
	has := map[string]bool{}
	for _, s := range all {
		has[s.Path] = true
	}
	lists := 0
	for _, s := range all {
		for _, k := range s.Keys {
			if k.Value != "list of mappings" {
				continue
			}
			path := k.Name + "[]"
			if s.Path != "" {
				path = s.Path + "." + path
			}
			if lists++; !has[path] {
				t.Errorf("%s has no section", path)
			}
		}
	}
	if lists < 5 {
		t.Errorf("%d lists of mappings, expected at least 5", lists)
	}
}
