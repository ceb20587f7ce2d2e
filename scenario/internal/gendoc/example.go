package main

import (
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/scenario"
)

// A topology's example has a workload on it, and a workload's a topology below it, so
// that each kind has a whole scenario.
const (
	onTopology = "systems: [{engine: none}]\nworkloads: [{kind: permutation, size: 100KB}]\n"
	// Circuits have no priority flow control.
	withCircuits = "topology: {kind: rdcn, tors: 5, hosts_per_tor: 2, day: 225us, night: 20us, circuit_rate: 100Gbps}\n"
	noPFC        = "pfc: {enabled: false}"
	belowLoads   = "topology: {kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 4}\nsystems: [{engine: none}]\n"
)

// alternatives are keys that stand in place of others, by section: an example has those others.
var alternatives = map[string][]string{
	"fabric.failures[]": {"port", "switch", "nic", "packet", "silent", "dies", "qp", "pcie", "gid_change", "post_send", "poll_cq", "status", "vendor_err", "after", "pfc_storm", "random", "gap", "within", "seed"},
}

// example returns every key of a section with its example, where it stands in a
// scenario; empty if no key has one.
func example(s *scenario.Section) string {
	instead := alternatives[s.Path]
	var keys, apart []string
	second := false
	for _, k := range s.Keys {
		if k.Name == "kind" && s.Kind == "" {
			continue
		}
		if k.Example != "" && !slices.Contains(instead, k.Name) {
			keys = append(keys, k.Name+": "+k.Example)
		}
		switch {
		case k.Apart != "":
			apart, second = append(apart, k.Name+": "+k.Apart), true
		case k.Required && k.Example != "":
			apart = append(apart, k.Name+": "+k.Example)
		}
	}
	if !second {
		apart = nil
	}
	switch {
	case len(keys) == 0:
		return ""
	case s.Path == "config":
		keys = append([]string{"engine: " + s.Kind, "config:"}, indent(keys)...)
		if e, err := cc.Lookup(s.Kind); err == nil && e.NewReceiver != nil {
			keys = append(keys, "override: {nic: {model: reduced}}")
		}
		return place("systems[]", keys, nil)
	case s.Kind != "":
		keys = append([]string{"kind: " + s.Kind}, keys...)
		if second {
			apart = append([]string{"kind: " + s.Kind, "name: another"}, apart...)
		}
	case s.Path == "topology":
		keys = append([]string{"kind: leaf-spine", "leaves: 2", "spines: 2", "hosts_per_leaf: 16"}, keys...)
	case s.Path == "topology.links[]":
		return "" // the graph has it
	case s.Path == "workloads[]":
		keys = append([]string{"kind: permutation", "size: 1MB"}, keys...)
	case s.Path == "workloads[].flows[]":
		return place("workloads[]", append([]string{"kind: flows", "flows:"}, append(item(keys), item(apart)...)...), nil)
	}
	if s.Path == "fabric.circuits" {
		keys = append([]string{noPFC, "circuits:"}, indent(keys)...)
		return withCircuits + place("fabric", keys, nil) + onTopology
	}
	text := place(s.Path, keys, apart)
	switch {
	case s.Path == "verbs": // in the host the shim polls
		return text + "nic: {mode: offload}\n"
	case s.Kind == "rdcn":
		return text + "fabric: {" + noPFC + "}\n" + onTopology
	case s.Kind == "":
		return text
	case s.Path == "topology":
		return text + onTopology
	}
	return belowLoads + text
}

// place puts keys where a path is; apart is a second item of its list.
func place(path string, keys, apart []string) string {
	steps := strings.Split(path, ".")
	for i := len(steps) - 1; i >= 0 && path != ""; i-- {
		name, list := strings.CutSuffix(steps[i], "[]")
		if name == "NAME" {
			name = "tor0"
		}
		if list {
			keys = item(keys)
			keys = append(keys, item(apart)...)
			apart = nil
		}
		keys = append([]string{name + ":"}, indent(keys)...)
	}
	return strings.Join(keys, "\n") + "\n"
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}

// item makes an item of a list.
func item(lines []string) []string {
	out := indent(lines)
	if len(out) > 0 {
		out[0] = "- " + lines[0]
	}
	return out
}
