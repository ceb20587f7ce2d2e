// Command presettable writes the table of the presets into docs/nic.md: each parameter that a
// preset sets, with its source.
package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/internal/markdown"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/nicmodel"
)

const (
	page    = "../docs/nic.md" // from the folder of package nicmodel
	section = "presets, written by go generate ./nicmodel"
)

// first are the columns that have an order, by generation; other presets follow by name.
var first = []string{"timely10g", "cx3", "connectib", "cx4lx", "cx5", "cx6", "cx6ib", "cx6dx", "cx7"}

func main() {
	if err := write(page); err != nil {
		fmt.Fprintln(os.Stderr, "presettable:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	t, err := table()
	if err != nil {
		return err
	}
	return outfile.WriteSection(path, section, "\n"+t+"\n")
}

// table is Markdown. A cell that is empty has the value of the one to its left.
func table() (string, error) {
	order := slices.Clone(first)
	for _, name := range nicmodel.Presets() {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	var names []string
	columns := make([][]string, len(order))
	for i, name := range order {
		c, err := nicmodel.Preset(name)
		if err != nil {
			return "", err
		}
		names = names[:0]
		leaves("", reflect.ValueOf(c), func(key string, v reflect.Value) {
			names = append(names, key)
			text := fmt.Sprint(v.Interface())
			if v.IsZero() && key != "framing" && key != "pcie.headers" {
				text = "-"
			}
			columns[i] = append(columns[i], text)
		})
	}
	var b strings.Builder
	head := []string{"parameter"}
	for _, preset := range order {
		head = append(head, markdown.Code(preset))
	}
	t := markdown.NewTable(&b, append(head, "source")...)
	used := map[string]bool{}
	var unset []string
	for k, name := range names {
		cells, set := []any{markdown.Code(name)}, false
		for i := range order {
			set = set || columns[i][k] != "-"
			text := columns[i][k]
			if i > 0 && text == columns[i-1][k] {
				text = ""
			}
			cells = append(cells, text)
		}
		if !set {
			unset = append(unset, "`"+name+"`")
			continue
		}
		source, ok := sources[name]
		if !ok {
			return "", fmt.Errorf("%s has no source: write one, or estimate, into sources", name)
		}
		used[name] = true
		t.Row(append(cells, source)...)
	}
	for name := range sources {
		if !used[name] {
			return "", fmt.Errorf("%s has a source, and no preset sets it", name)
		}
	}
	fmt.Fprintf(&b, "\nNo preset sets %s.\n", strings.Join(unset, ", "))
	if err := hostTable(&b); err != nil {
		return "", err
	}
	return b.String(), nil
}

// hostTable is of the hosts, by their PCIe.
func hostTable(b *strings.Builder) error {
	b.WriteString("\nHosts (`nic.host`):\n\n")
	t := markdown.NewTable(b, "host", "processor", "PCIe", "`read_latency`", "posted lines", "last-level cache", "of it for a device's writes", "memory later by", "memory", "source")
	names := nicmodel.Hosts()
	for _, generation := range []int{3, 4, 5} {
		for _, name := range names {
			h, err := nicmodel.HostOf(name)
			if err != nil {
				return err
			}
			if h.Generation != generation {
				continue
			}
			writes, miss := fmt.Sprint(h.Cache.Writes>>10, " KiB"), fmt.Sprint(h.Cache.Miss)
			if h.Cache.Writes == 0 {
				writes, miss = "none", "-"
			}
			t.Row(markdown.Code(name), h.Processor, fmt.Sprintf("%d.0", h.Generation), h.ReadLatency, h.PostedLines, fmt.Sprintf("%d KiB", h.Cache.Size>>10), writes, miss, h.Memory, h.Source)
		}
	}
	return nil
}

// leaves visits the parameters of a structure by their names in scenarios.
func leaves(prefix string, v reflect.Value, visit func(key string, v reflect.Value)) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("yaml")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			leaves(key+".", f, visit)
		} else {
			visit(key, f)
		}
	}
}
