package reproduce

import (
	"fmt"
	"path"
)

// match returns the ids that a pattern chooses; an error if it chooses none.
func match(rows []*Row, pattern string) ([]string, error) {
	var ids []string
	for _, r := range rows {
		ok, err := path.Match(pattern, r.ID)
		if err != nil {
			return nil, fmt.Errorf("%q is no pattern of ids: write an id, or one with * and ?", pattern)
		}
		if ok || pattern == r.from.Name {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) > 0 {
		return ids, nil
	}
	for _, p := range allPapers() {
		for _, about := range p.Rows {
			if about.ID == pattern {
				return nil, fmt.Errorf("%s (%s, %s) is in the papers' list and can't be run yet: sluice reproduce --list shows what can", pattern, p.Title, about.Source)
			}
		}
	}
	return nil, fmt.Errorf("there is no row %q: sluice reproduce --list shows them", pattern)
}
