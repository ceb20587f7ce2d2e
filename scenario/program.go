package scenario

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Telemetry sets form and clock of the telemetry that switches write.
type Telemetry struct {
	// How the largest delay is written into packets: `exact`, or in a form of
	// [telemetry.md](telemetry.md#forms), such as `csig-wide`; per-hop records are then as
	// `per_hop` holds them. Programs need such a form.
	Form string `yaml:"form" eg:"poseidon"`
	// How per-hop records are written: a form of that table. Packets grow by its bytes where
	// records are exact, too.
	PerHop perHop `yaml:"per_hop" eg:"int"`
	// The clock that switches measure by, where the form is not exact: `v1model`
	// (microseconds), `tofino` (nanoseconds, up to 262 us; six records of hops) or
	// `tofino2` (nanoseconds). Programs have their architecture's, of TNA for that chip.
	Clock string `yaml:"clock" eg:"tofino"`
}

const formExact = "exact"

// perHop names a form of per-hop records. The first is left out where a scenario is written:
// scenarios that say nothing of it read as they did before there was a choice.
type perHop string

var firstPerHop = perHop(telemetry.INTForm(0).String())

// EncodeNode implements tree.Encoder.
func (f perHop) EncodeNode() any {
	if f == firstPerHop {
		return nil
	}
	return string(f)
}

var switchClocks = map[string]telemetry.SwitchClock{
	"v1model": telemetry.V1ModelClock, "tofino": telemetry.TofinoClock, "tofino2": telemetry.Tofino2Clock,
}

// int is the form of per-hop records; of a name that there is not, which is an error of its
// own, the first.
func (t *Telemetry) int() telemetry.INTForm {
	f, _ := telemetry.FormNamed(string(t.PerHop))
	return f.INT
}

// report returns how switches report where frames are at most so large, or nil where
// that is exact.
func (f *Fabric) report(maxFrame units.Bytes) *fabric.Report {
	if f.Telemetry.Form == formExact {
		return nil
	}
	var form telemetry.DelayForm
	if form.UnmarshalText([]byte(f.Telemetry.Form)) != nil {
		return nil // an error of its own
	}
	r := &fabric.Report{Clock: switchClocks[f.Telemetry.Clock], Delay: telemetry.DefaultDelayFormat(form), INT: telemetry.DefaultINTFormat(f.Telemetry.int())}
	if r.Clock == telemetry.V1ModelClock {
		// v1model counts packets: each is taken for one of the largest.
		r.PacketUnits = int64((maxFrame + telemetry.CellBytes - 1) / telemetry.CellBytes)
	}
	if r.Clock == telemetry.TofinoClock {
		r.Hops = telemetry.TofinoHops
	}
	return r
}

// ProgramOf returns the file of the program that runs in a switch, or "".
func (f *Fabric) ProgramOf(name string) string {
	p := f.Program
	if one := f.Switches[name]; one.Program != nil {
		p = *one.Program
	}
	if p == programNone {
		return ""
	}
	return p
}

// programNone stands for no program at a switch where others have one.
const programNone = "none"

// besides finds a file that a scenario names where the scenario is. Others stay as
// they are.
func besides(d *tree.Document, key, name string) string {
	if at := d.Pos(key); name != "" && name != programNone && at.Set == "" && !filepath.IsAbs(name) {
		beside := filepath.Join(filepath.Dir(at.File), name)
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return name
}

// checkPrograms checks what is about telemetry's forms and programs.
func (f *Fabric) checkPrograms(d *tree.Document, at func(string) string) {
	exact := f.Telemetry.Form == formExact
	if !exact {
		var form telemetry.DelayForm
		if form.UnmarshalText([]byte(f.Telemetry.Form)) != nil {
			d.Fail(at("fabric.telemetry.form"), "unknown value %q, expected %s, %s", f.Telemetry.Form, formExact, telemetry.FormNames(telemetry.Form.IsDelay))
		}
	}
	if form, _ := telemetry.FormNamed(string(f.Telemetry.PerHop)); !form.IsPerHop() {
		d.Fail(at("fabric.telemetry.per_hop"), "unknown value %q, expected %s", f.Telemetry.PerHop, telemetry.FormNames(telemetry.Form.IsPerHop))
	}
	if _, ok := switchClocks[f.Telemetry.Clock]; !ok {
		d.Fail(at("fabric.telemetry.clock"), "unknown value %q, expected v1model, tofino or tofino2", f.Telemetry.Clock)
	}
	f.Program = besides(d, at("fabric.program"), f.Program)
	f.ProgramEntries = besides(d, at("fabric.program_entries"), f.ProgramEntries)
	for i, x := range f.ProgramDefine {
		if name, _, _ := strings.Cut(x, "="); strings.TrimSpace(name) == "" {
			d.Fail(at("fabric.program_define"), "entry %d, %q, has no name: write NAME or NAME=VALUE", i+1, x)
		}
	}
	key := ""
	if f.Program != "" && f.Program != programNone {
		key = "fabric.program"
	}
	for name, one := range f.Switches {
		if one.Program == nil {
			continue
		}
		own := "fabric.switches." + name + ".program"
		p := besides(d, at(own), *one.Program)
		one.Program = &p
		f.Switches[name] = one
		if p != "" && p != programNone {
			key = own
		}
	}
	switch {
	case key == "" && f.Program == "":
		if f.ProgramEntries != "" {
			d.Fail(at("fabric.program_entries"), "there is no program: set fabric.program")
		}
		if len(f.ProgramDefine) > 0 {
			d.Fail(at("fabric.program_define"), "there is no program: set fabric.program")
		}
	case key != "" && exact:
		d.Fail(at(key), "a program writes telemetry in some form, and fabric.telemetry.form is exact: set it to %s, as the program has it", telemetry.FormNames(telemetry.Form.IsDelay))
	}
}
