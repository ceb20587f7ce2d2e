package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/workload"
)

// Entry is something that a scenario can name.
type Entry struct {
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"`
	Source  string `json:"source,omitempty"`
}

// Catalogue is all that scenarios can name.
type Catalogue struct {
	Scenarios []Entry `json:"scenarios"`
	// Systems are those of papers, which use takes.
	Systems []Entry `json:"systems"`
	Engines []Entry `json:"engines"`
	NICs    []Entry `json:"nic_presets"`
	Sizes   []Entry `json:"size_distributions"`
}

// List returns the built-in scenarios.
func List() (*Catalogue, error) {
	c := &Catalogue{}
	for _, name := range slices.Concat(Builtins(), Speeds()) {
		s, err := Load(name)
		if err != nil {
			return nil, err
		}
		c.Scenarios = append(c.Scenarios, Entry{name, firstSentence(s.Description), s.Source})
	}
	for _, name := range PaperSystems() {
		one, err := paperSystem(name)
		if err != nil {
			return nil, err
		}
		c.Systems = append(c.Systems, Entry{Name: name, Summary: one})
	}
	for _, e := range cc.Schemes() {
		c.Engines = append(c.Engines, Entry{e.Name, e.Summary, e.Source})
	}
	for _, name := range nicmodel.Presets() {
		n, err := nicmodel.Preset(name)
		if err != nil {
			return nil, err
		}
		c.NICs = append(c.NICs, Entry{Name: name, Summary: fmt.Sprintf("PCIe at %v, core clock %d MHz, %d-bit timestamps at %.6g MHz",
			n.PCIe.Rate, n.CoreClock/1e6, n.Counter.Bits, float64(n.Counter.Hz)/1e6)})
	}
	for _, d := range workload.Distributions() {
		c.Sizes = append(c.Sizes, Entry{d.Name, d.Summary, d.Source})
	}
	return c, nil
}

// firstSentence cuts a description at the first full stop that ends a word.
func firstSentence(text string) string {
	first, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.TrimSuffix(first, ".")
}
