package telemetry

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
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
	want := before + begin + formsTable() + layoutsText() + recordsTable() + end + after
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
	b.WriteString("\nThe fields of tags, shims and records, from the first bit on:\n\n```\n")
	for i := range delayLayouts {
		l := &delayLayouts[i]
		drawFields(&b, l.name, 8*l.bytes, append(l.fields(), namedField{"EtherType", field(uint8(8*l.bytes-16), 16)}))
	}
	for i := range intLayouts {
		l := &intLayouts[i]
		drawFields(&b, l.name, 8*l.shim, l.shimFields())
		drawFields(&b, "", 8*l.record, l.recordFields())
	}
	b.WriteString("```\n")
	return b.String()
}

type namedField struct {
	name string
	bitField
}

func (l *delayLayout) fields() []namedField {
	return []namedField{{"value", l.value}, {"signal", l.signal}, {"locator", l.locator}, {"frozen", l.frozen}}
}

func (l *intLayout) shimFields() []namedField {
	return []namedField{{fmt.Sprintf("%#x", l.is), l.kind}, {"overflow", l.overflow}, {"reflected", l.reflected}, {"length", l.count}, {"UDP port", l.port}}
}

func (l *intLayout) recordFields() []namedField {
	return []namedField{{"rate", l.rate}, {"time", l.time}, {"txBytes", l.tx}, {"queue", l.queue}}
}

// drawFields draws fields of top bits, with what is between them.
func drawFields(b *strings.Builder, name string, top int, fields []namedField) {
	slices.SortFunc(fields, func(a, b namedField) int { return int(b.shift) - int(a.shift) })
	widths, names := fmt.Sprintf("%-12s  bits", name), fmt.Sprintf("%-18s", "")
	add := func(n int, name string) {
		if n > 0 {
			width := max(len(name), len(fmt.Sprint(n)))
			widths += fmt.Sprintf("  %-*d", width, n)
			names += fmt.Sprintf("  %-*s", width, name)
		}
	}
	for _, f := range fields {
		if n := bitsOf(f.bitField); n > 0 {
			add(top-int(f.shift)-n, "(0)")
			add(n, f.name)
			top = int(f.shift)
		}
	}
	add(top, "(0)")
	b.WriteString(strings.TrimRight(widths, " ") + "\n" + strings.TrimRight(names, " ") + "\n")
}

// recordsTable says what the fields of per-hop INT count.
func recordsTable() string {
	var b strings.Builder
	b.WriteString("\n| form | hops | order | shim's length in | time | wraps after | txBytes | wraps after | queue | saturates at |\n" + strings.Repeat("|---", 10) + "|\n")
	for i := range intLayouts {
		l := &intLayouts[i]
		order := "first hop first"
		if l.latestFirst {
			order = "latest hop first"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %d bytes | %v | %v | %v | %v | %v | %v |\n", l.name, l.most, order, l.counts,
			l.timeUnit, l.timeWrap(), l.txUnit, l.txWrap(), l.queueUnit, l.queueUnit*units.Bytes(l.queue.most))
	}
	return b.String()
}

func bitsOf(f bitField) int { return bits.Len64(f.most) }

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
		checkFields(t, l.name, 8*l.bytes-16, l.fields())
		if l.value.most == 0 || l.forward > l.signal.most || l.reflected > l.signal.most || l.scale == fixed && l.unit <= 0 {
			t.Errorf("%s: %+v", l.name, l)
		}
	}
	for i := range intLayouts {
		l := &intLayouts[i]
		checkFields(t, l.name, 8*l.shim, l.shimFields())
		checkFields(t, l.name, 8*l.record, l.recordFields())
		switch {
		case l.shim != 4 && l.shim != 8, l.record != 8 && l.record != maxRecordBytes, l.most < 1, l.most > MaxHops:
			t.Errorf("%s: a shim of %d bytes and %d records of %d", l.name, l.shim, l.most, l.record)
		case bits.OnesCount8(l.counts) != 1, l.record%int(l.counts) != 0, l.count.most*uint64(l.counts) < uint64(l.most)*uint64(l.record):
			t.Errorf("%s: the shim's length of %d bits in %d bytes", l.name, bitsOf(l.count), l.counts)
		case l.kind.most == 0, l.is > l.kind.most, l.reflected.most != 1, l.overflow.most > 1, l.port.most != 1<<16-1:
			t.Errorf("%s: the shim's fields %+v", l.name, l.shimFields())
		case l.rate.most == 0, l.rate.most > 255, l.time.most == 0, l.tx.most == 0, l.queue.most == 0:
			t.Errorf("%s: the record's fields %+v", l.name, l.recordFields())
		case l.timeUnit <= 0, l.txUnit <= 0, l.queueUnit <= 0:
			t.Errorf("%s: units %v, %v and %v", l.name, l.timeUnit, l.txUnit, l.queueUnit)
		}
		for _, x := range []struct {
			unit int64
			f    bitField
		}{{int64(l.timeUnit), l.time}, {int64(l.txUnit), l.tx}, {int64(l.queueUnit), l.queue}} {
			if bits.Len64(uint64(x.unit))+bitsOf(x.f) > 62 {
				t.Errorf("%s: %d bits in units of %d overflow an int64", l.name, bitsOf(x.f), x.unit)
			}
		}
	}
}

// checkFields says which fields overlap, end beyond them, or cross bit 64.
func checkFields(t *testing.T, form string, top int, fields []namedField) {
	t.Helper()
	end := 0
	slices.SortFunc(fields, func(a, b namedField) int { return int(a.shift) - int(b.shift) })
	for _, f := range fields {
		width, first := bitsOf(f.bitField), int(f.shift)
		if width == 0 {
			continue
		}
		if first < end || first+width > top || first/64 != (first+width-1)/64 || f.most&(f.most+1) != 0 {
			t.Errorf("%s: %s, bits %d to %d, overlaps with another field or leaves the %d bits", form, f.name, first, first+width-1, top)
		}
		end = first + width
	}
}
