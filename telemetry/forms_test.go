package telemetry

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the forms into docs/telemetry.md anew")

// TestFormsPage compares the tables of docs/telemetry.md with what is written here.
func TestFormsPage(t *testing.T) {
	const page, begin, end = "../docs/telemetry.md", "<!-- Forms, written by go test ./telemetry -update -->\n", "<!-- end of forms -->\n"
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(have), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q or %q", page, begin, end)
	}
	want := before + begin + formsTable() + layoutsText() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(have) {
		t.Errorf("%s does not have the forms of this package: go test ./telemetry -update", page)
	}
}

func formsTable() string {
	carries := map[Kind]string{MaxDelay: "largest delay of a hop", PerHop: "record for each hop", None: "explicit incast notification"}
	var b strings.Builder
	b.WriteString("\n| form | carries | bytes | EtherType | values |\n|---|---|---|---|---|\n")
	for _, f := range Forms() {
		bytes := fmt.Sprint(f.Bytes)
		if f.HopBytes > 0 {
			bytes += fmt.Sprintf(" + %d a hop", f.HopBytes)
		}
		etherType, values := "", ""
		if f.IsDelay() {
			l := &delayLayouts[f.Delay]
			etherType = fmt.Sprintf("%#04x", l.etherType)
			format := DefaultDelayFormat(f.Delay)
			last := format.Delay(f.Delay.MaxCode())
			switch l.scale {
			case linear:
				values = fmt.Sprintf("(delay - base) / step; by default base %v, step %v: to %v", format.Base, format.Step, last)
			case buckets:
				values = fmt.Sprintf("%d buckets; by default from %v wide, the last from %v on", len(format.Buckets), format.Buckets[1], last)
			case fixed:
				values = fmt.Sprintf("delay / %v, to %v", l.unit, last)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, carries[f.Kind], bytes, etherType, values)
	}
	return b.String()
}

// layoutsText draws what stands behind the EtherType, by bits from the first on.
func layoutsText() string {
	var b strings.Builder
	b.WriteString("\nThe tags' fields, from the first bit on:\n\n```\n")
	for i := range delayLayouts {
		l := &delayLayouts[i]
		fields := []struct {
			name string
			f    bitField
		}{{"value", l.value}, {"signal", l.signal}, {"locator", l.locator}, {"frozen", l.frozen}}
		slices.SortFunc(fields, func(a, b struct {
			name string
			f    bitField
		}) int {
			return int(b.f.shift) - int(a.f.shift)
		})
		widths, names := fmt.Sprintf("%-12s  bits  16       ", l.name), fmt.Sprintf("%-20sEtherType", "")
		top := 8*l.bytes - 16
		add := func(bits int, name string) {
			if bits > 0 {
				widths += fmt.Sprintf("  %-*d", len(name), bits)
				names += "  " + name
			}
		}
		for _, f := range fields {
			if bits := bitsOf(f.f); bits > 0 {
				add(top-int(f.f.shift)-bits, "(0)")
				add(bits, f.name)
				top = int(f.f.shift)
			}
		}
		add(top, "(0)")
		b.WriteString(strings.TrimRight(widths, " ") + "\n" + names + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}

func bitsOf(f bitField) (n int) {
	for most := f.most; most > 0; most >>= 1 {
		n++
	}
	return n
}

// Forms have names of their own, and fields that do not overlap.
func TestForms(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Forms() {
		if got, err := FormNamed(f.Name); err != nil || got != f || seen[f.Name] {
			t.Errorf("%s: %+v, %v", f.Name, got, err)
		}
		seen[f.Name] = true
	}
	if _, err := FormNamed("csig"); err == nil || !strings.Contains(err.Error(), "expected csig-wide, ") {
		t.Errorf("csig: %v", err)
	}
	for i := range delayLayouts {
		l := &delayLayouts[i]
		if l.bytes != 4 && l.bytes != 8 || l.bytes > WideBytes || l.etherType < 0x600 || l.forward == l.reflected {
			t.Errorf("%s: %+v", l.name, l)
		}
		used := uint64(0)
		for _, f := range []bitField{l.value, l.signal, l.locator, l.frozen} {
			at := f.most << f.shift
			if used&at != 0 || at>>(8*l.bytes-16) != 0 {
				t.Errorf("%s: the field at %#x overlaps with another one or the EtherType", l.name, at)
			}
			used |= at
		}
		if l.value.most == 0 || l.forward > l.signal.most || l.reflected > l.signal.most || l.scale == fixed && l.unit <= 0 {
			t.Errorf("%s: %+v", l.name, l)
		}
	}
}
