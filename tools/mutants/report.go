package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/sluice-rdma/sluice/internal/quantile"
)

// Result is a mutant and what became of it.
type Result struct {
	*Mutant
	*Verdict
}

// count is a row of a table.
type count struct {
	name           string
	planted, found int
	uncovered      int
	seeds          []int
}

// tally counts results under the names that key gives them, in the order of the
// names, and all of them.
func tally(results []*Result, key func(*Result) string) []*count {
	rows := map[string]*count{}
	all := &count{name: "all"}
	for _, r := range results {
		k := key(r)
		if rows[k] == nil {
			rows[k] = &count{name: k}
		}
		for _, c := range []*count{rows[k], all} {
			c.planted++
			if r.Found {
				c.found++
			}
			if r.Uncovered {
				c.uncovered++
			}
			if r.Found && r.Seeds > 0 {
				c.seeds = append(c.seeds, r.Seeds)
			}
		}
	}
	var list []*count
	for _, c := range rows {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *count) int { return cmp.Compare(a.name, b.name) })
	return append(list, all)
}

func (c *count) share() string {
	return fmt.Sprintf("%.0f%%", 100*float64(c.found)/float64(max(c.planted, 1)))
}

func (c *count) median() string {
	if len(c.seeds) == 0 {
		return "-"
	}
	slices.Sort(c.seeds)
	return fmt.Sprint(quantile.Of(c.seeds, 0.5))
}

// table writes rows of what was found.
func table(out io.Writer, what string, rows []*count, seeds bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tmutants\tfound\tshare\t", what)
	if seeds {
		fmt.Fprint(w, "seeds (median)\t")
	} else {
		fmt.Fprint(w, "not covered\t")
	}
	fmt.Fprintln(w)
	for _, c := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t", c.name, c.planted, c.found, c.share())
		if seeds {
			fmt.Fprintf(w, "%s\t", c.median())
		} else {
			fmt.Fprintf(w, "%d\t", c.uncovered)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// line describes the fate of one mutant.
func (r *Result) line() string {
	switch {
	case r.Uncovered:
		return fmt.Sprintf("survived  %s: %s (no test runs it)", r.FullName(), r.Breaks)
	case !r.Found:
		return fmt.Sprintf("survived  %s: %s", r.FullName(), r.Breaks)
	case r.Seeds > 0:
		return fmt.Sprintf("found     %s: %s, after %d seeds: %s", r.FullName(), r.By, r.Seeds, brief(r.What))
	}
	return fmt.Sprintf("found     %s: %s %s", r.FullName(), r.By, r.How)
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
