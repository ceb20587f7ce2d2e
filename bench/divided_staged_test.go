package bench

import (
	"testing"

	"github.com/sluice-rdma/sluice/internal/racedetector"
)

// What acts on a whole network, or on a switch, under staged NICs: the same bytes undivided and
// on one worker to three.
func TestDividedWholeStaged(t *testing.T) {
	for _, action := range []string{"drop", "forward"} {
		t.Run(action, func(t *testing.T) { agree(t, parse(t, failing(action), "expect=[]")) })
	}
	for name, sets := range map[string][]string{
		"link-failure":      {"duration=4ms"},
		"powertcp-rdcn":     {"duration=300us", "warmup=100us"},
		"poseidon-multihop": {"fabric.telemetry.form=poseidon", "fabric.telemetry.clock=v1model", "fabric.program=../p4/poseidon_mpd.p4", "duration=400us", "warmup=0s"},
		"powertcp-incast":   {"fabric.telemetry.form=csig-wide", "fabric.telemetry.clock=tofino", "fabric.program=../p4/int_tna.p4", "duration=400us", "warmup=0s"},
		"websearch":         {"duration=1ms", "warmup=200us", "systems=[{engine: ideal}]"},
	} {
		t.Run(name, func(t *testing.T) {
			if racedetector.On && (name == "link-failure" || name == "powertcp-rdcn") {
				t.Skip("failures under the race detector are drop's and forward's")
			}
			agree(t, load(t, name, append(sets, "expect=[]")...))
		})
	}
}
