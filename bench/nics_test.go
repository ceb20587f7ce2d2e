package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

func nicOf(t *testing.T, s *results.System, name string) *results.NICUse {
	t.Helper()
	for i := range s.NICs {
		if s.NICs[i].NIC == name {
			return &s.NICs[i]
		}
	}
	t.Fatalf("%s has no NIC of %s", s.Name, name)
	return nil
}

func stageOf(t *testing.T, u *results.NICUse, name string) *results.NICStage {
	t.Helper()
	for i := range u.Stages {
		if u.Stages[i].Stage == name {
			return &u.Stages[i]
		}
	}
	t.Fatalf("%s has no stage %s", u.NIC, name)
	return nil
}

// checkUse checks what must hold of any NIC: every cycle and every byte has its place,
// and a stage's cycles are those of its clock from the end of the warm-up.
func checkUse(t *testing.T, u *results.NICUse, span units.Time) {
	t.Helper()
	for _, s := range u.Stages {
		sum := s.Busy + s.Idle
		for _, cycles := range s.Stalled {
			sum += cycles
		}
		if sum != s.Elapsed {
			t.Errorf("%s: %s: busy, idle and stalled cycles are %d, and %d elapsed", u.NIC, s.Stage, sum, s.Elapsed)
		}
		// A piece in service at either end counts to its end, which may be several page walks
		// away, and PCIe takes in work ahead.
		off := 0.04
		if strings.HasPrefix(s.Stage, "pcie_") {
			off = 0.1
		}
		if want := span.Seconds() * float64(s.ClockHz) * float64(s.Parallel); math.Abs(float64(s.Elapsed)-want) > off*want {
			t.Errorf("%s: %s: %d cycles elapsed in %v, not %.0f", u.NIC, s.Stage, s.Elapsed, span, want)
		}
	}
	for _, p := range u.PCIe {
		sum := int64(0)
		for _, n := range p.ByPurpose {
			sum += n
		}
		byType := int64(0)
		for _, x := range p.TLPs {
			byType += x.Bytes
		}
		// The link counts its time by itself.
		account := stageOf(t, u, map[string]string{results.ToHost: "pcie_up", results.FromHost: "pcie_down"}[p.Direction])
		if share := stats.Float(account.Busy) / stats.Float(account.Elapsed); math.Abs(float64(share-p.Busy)) > 0.01 {
			t.Errorf("%s: %s: bytes take %.4f of the time, and the link counts %.4f", u.NIC, p.Direction, p.Busy, share)
		}
		if byType != p.Bytes {
			t.Errorf("%s: %s: %d bytes by type of TLP, %d in all", u.NIC, p.Direction, byType, p.Bytes)
		}
		if sum != p.Bytes || p.Busy < 0 || p.Busy > 1 {
			t.Errorf("%s: %s: %d bytes by purpose: %+v", u.NIC, p.Direction, sum, p)
		}
	}
	for _, q := range u.Queues {
		// Little's law holds of what is printed.
		if q.Came > 0 && !within(q.Mean*stats.Float(span.Microseconds()), float64(q.WaitUs)*float64(q.Came), 1e-6) {
			t.Errorf("%s: queue %s: %v in it over %v, %d came and stayed %v us", u.NIC, q.Queue, q.Mean, span, q.Came, q.WaitUs)
		}
	}
	if !strings.HasPrefix(u.Bottleneck, u.NIC+"'s NIC: ") {
		t.Errorf("%s: bottleneck %q", u.NIC, u.Bottleneck)
	}
}

func TestNICUse(t *testing.T) {
	for _, c := range []struct {
		name string
		sets []string
		want string // of h0's bottleneck
	}{
		{"nic-small-writes", nil, "h0's NIC: the wire is busy "},
		{"quickstart", []string{"measure.nic=[h0, h1]"}, "h0's NIC: the wire is busy 9"},
		{"quickstart", []string{"measure.nic=all", "warmup=100us", "nic.mode=offload", "systems=[{engine: none}]"}, "h0's NIC: the wire is busy 9"},
		{"quickstart", []string{"measure.nic=all", "shim.outstanding=4KiB", "shim.segment=4KiB"}, "h0's NIC: no stage above 60.0 %"},
		{"nic-doorbell", []string{"systems=[{engine: none}]"}, "h0's NIC: the host limits, which has "},
		{"rpc", []string{"measure.nic=[h0, h6, h7]"}, "h0's NIC: "},
	} {
		s := load(t, c.name, c.sets...)
		r := run(t, s)
		for _, sys := range r.Systems {
			if len(sys.NICs) != len(s.MeasuredNICs()) {
				t.Errorf("%s: %d NICs", c.name, len(sys.NICs))
			}
			for i := range sys.NICs {
				u := &sys.NICs[i]
				checkUse(t, u, units.Time(math.Round(float64(sys.SimS)*1e12))-s.Warmup)
			}
			if got := nicOf(t, sys, "h0").Bottleneck; !strings.HasPrefix(got, c.want) {
				t.Errorf("%s %v: %q, want %s", c.name, c.sets, got, c.want)
			}
		}
	}
}

// What a Write of many packets takes on PCIe is known: its payload with the headers of
// its TLPs, a completion, a doorbell; and on the wire, its frames.
func TestNICUseOfOneFlow(t *testing.T) {
	s := load(t, "quickstart", "measure.nic=all", "nic.mode=offload", "systems=[{engine: none}]")
	sys := run(t, s).Systems[0]
	cfg, err := nicmodel.Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	h0, h1 := nicOf(t, sys, "h0"), nicOf(t, sys, "h1")
	if h0.Requests != 1 || h1.Requests != 0 {
		t.Errorf("%d and %d requests", h0.Requests, h1.Requests)
	}
	payload := func(p *results.NICPCIe) float64 { return float64(p.ByPurpose["payload"]) / float64(sys.Bytes) }
	for _, x := range []struct {
		what string
		got  float64
	}{{"read by the sender", payload(&h0.PCIe[1])}, {"written by the receiver", payload(&h1.PCIe[0])}} {
		// 1024 bytes in TLPs of 256 with 20 to 26 bytes around each, and up to two more
		// where addresses are not aligned.
		if x.got < 1+4*20/1024.0 || x.got > 1+6*26/1024.0 {
			t.Errorf("%s: %.3f bytes on PCIe for each of payload", x.what, x.got)
		}
	}
	if n := h0.PCIe[0].ByPurpose["cqe"]; n < int64(cfg.CQEBytes) || n > int64(cfg.CQEBytes)+26 {
		t.Errorf("a completion takes %d bytes", n)
	}
	packets := uint64(math.Ceil(float64(sys.Bytes) / 1024))
	for _, x := range []struct {
		u     *results.NICUse
		stage string
	}{{h0, "scheduler"}, {h0, "packetiser"}, {h0, "mac"}, {h1, "parse"}, {h1, "transport"}} {
		if n := stageOf(t, x.u, x.stage).Served; n != packets {
			t.Errorf("%s of %s served %d packets of %d", x.stage, x.u.NIC, n, packets)
		}
	}
}

// The table, the JSON and the page have what the result has.
func TestNICUseIsWritten(t *testing.T) {
	s := load(t, "nic-small-writes")
	r := run(t, s)
	var table, text, page bytes.Buffer
	if err := results.Table(&table, r); err != nil {
		t.Fatal(err)
	}
	line := nicOf(t, r.Systems[0], "h0").Bottleneck
	for _, want := range []string{line, "h0 packetiser", "h1 transport", "h0 from host", "a request[B]", "h0 requests"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	d := results.NewDocument(time.Unix(0, 0), nil)
	d.Results = append(d.Results, r)
	if err := results.WriteJSON(&text, d); err != nil {
		t.Fatal(err)
	}
	again, err := results.ReadJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	if got := nicOf(t, again.Results[0].Systems[0], "h0"); got.Bottleneck != line || len(got.Stages) < 8 {
		t.Errorf("read back: %+v", got)
	}
	if err := results.WriteHTML(&page, again); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NICs of none: where the cycles went", "NICs of none: bytes on PCIe", "<th scope=\"row\">h0 packetiser</th>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	// Who does not ask gets nothing.
	table.Reset()
	if err := results.Table(&table, run(t, load(t, "quickstart"))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), "NIC") {
		t.Errorf("a scenario without measure.nic has\n%s", table.String())
	}
}

// What engines' processors handled, merged and dropped is in the result where there are any: each
// acknowledgement is an event, of which a single slow processor merges most.
func TestEngineEventsAreReported(t *testing.T) {
	systems := "systems=[{engine: timely}, {name: slow, engine: timely, override: {nic: {with: {offload: {processors: 1, cost: 5us, queue: 4}}}}}]"
	r := run(t, load(t, "nic-processors", systems, "duration=300us", "warmup=100us"))
	if u := nicOf(t, r.Systems[0], "h1"); u.EngineEvents != nil {
		t.Errorf("without processors: %+v", u.EngineEvents)
	}
	u := nicOf(t, r.Systems[1], "h1")
	e := u.EngineEvents
	if e == nil || e.Handled < 39 || e.Handled > 41 { // 200 us of 5 us each
		t.Fatalf("%+v, want 40 handled", e)
	}
	if e.Merged == 0 || e.Dropped != 0 {
		t.Errorf("%+v: want acknowledgements merged, and no notification dropped, as TIMELY has none", e)
	}
	if n := stageOf(t, u, "processors").Served; n != e.Handled {
		t.Errorf("%d events handled, and the account has %d", e.Handled, n)
	}
	var b bytes.Buffer
	if err := results.Table(&b, r); err != nil || !strings.Contains(b.String(), "merged and 0 that were dropped") {
		t.Errorf("the table says nothing of them (%v):\n%s", err, &b)
	}
}
