package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/telemetry"
)

func TestProgramsAndForms(t *testing.T) {
	s := parse(t, small, "fabric.program=p4/poseidon_mpd.p4", "fabric.telemetry={form: poseidon, clock: tofino}", "fabric.switches={tor0: {program: none}}")
	f := &s.Systems[0].Fabric
	if got := f.ProgramOf("tor0"); got != "" {
		t.Errorf("tor0, which has none, has program %q", got)
	}
	if got := f.ProgramOf("tor1"); got != "p4/poseidon_mpd.p4" {
		t.Errorf("tor1 has program %q", got)
	}
	r := s.Systems[0].FabricConfig().Switch.Report
	if r == nil || r.Clock != telemetry.TofinoClock || r.Delay.Form != telemetry.Value {
		t.Errorf("switches report by %+v", r)
	}
	if r := parse(t, small).Systems[0].FabricConfig().Switch.Report; r != nil {
		t.Errorf("without a form switches report by %+v", r)
	}
}

// A program is looked for beside the scenario that names it.
func TestProgramBesideTheScenario(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"mine.p4": "", "s.yaml": strings.Replace(small, "buffer: 1MiB", "buffer: 1MiB\n  program: mine.p4\n  telemetry: {form: csig-wide}", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(filepath.Join(dir, "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Systems[0].Fabric.ProgramOf("tor0"), filepath.Join(dir, "mine.p4"); got != want {
		t.Errorf("the program is %q, want %q", got, want)
	}
}
