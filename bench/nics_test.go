package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

func nicOf(t *testing.T, s *System, name string) *NICUse {
	t.Helper()
	for i := range s.NICs {
		if s.NICs[i].NIC == name {
			return &s.NICs[i]
		}
	}
	t.Fatalf("%s has no NIC of %s", s.Name, name)
	return nil
}

func (u *NICUse) stage(t *testing.T, name string) *NICStage {
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
func checkUse(t *testing.T, u *NICUse, span units.Time) {
	t.Helper()
	for _, s := range u.Stages {
		sum := s.Busy + s.Idle
		for _, cycles := range s.Stalled {
			sum += cycles
		}
		if sum != s.Elapsed {
			t.Errorf("%s: %s: busy, idle and stalled cycles are %d, and %d elapsed", u.NIC, s.Stage, sum, s.Elapsed)
		}
		// A piece in service at either end counts to its end, and PCIe takes in work
		// ahead.
		off := 0.02
		if s.isPCIe() {
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
		account := u.stage(t, map[string]string{ToHost: "pcie_up", FromHost: "pcie_down"}[p.Direction])
		if share := Float(account.Busy) / Float(account.Elapsed); math.Abs(float64(share-p.Busy)) > 0.01 {
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
		if q.Came > 0 && !within(q.Mean*Float(span.Microseconds()), float64(q.WaitUs)*float64(q.Came), 1e-6) {
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
		{"nic-small-writes", nil, "h0's NIC: stage scheduler waits "},
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
	payload := func(p *NICPCIe) float64 { return float64(p.ByPurpose["payload"]) / float64(sys.Bytes) }
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
		u     *NICUse
		stage string
	}{{h0, "scheduler"}, {h0, "packetiser"}, {h0, "mac"}, {h1, "parse"}, {h1, "transport"}} {
		if n := x.u.stage(t, x.stage).Served; n != packets {
			t.Errorf("%s of %s served %d packets of %d", x.stage, x.u.NIC, n, packets)
		}
	}
}

// The table, the JSON and the page have what the result has.
func TestNICUseIsWritten(t *testing.T) {
	s := load(t, "nic-small-writes")
	r := run(t, s)
	var table, text, page bytes.Buffer
	if err := Table(&table, r); err != nil {
		t.Fatal(err)
	}
	line := nicOf(t, r.Systems[0], "h0").Bottleneck
	for _, want := range []string{line, "h0 packetiser", "h1 transport", "h0 from host", "a request[B]", "h0 requests"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	d := NewDocument(time.Unix(0, 0), nil)
	d.Results = append(d.Results, r)
	if err := WriteJSON(&text, d); err != nil {
		t.Fatal(err)
	}
	again, err := ReadJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	if got := nicOf(t, again.Results[0].Systems[0], "h0"); got.Bottleneck != line || len(got.Stages) < 8 {
		t.Errorf("read back: %+v", got)
	}
	if err := WriteHTML(&page, again); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NICs of none: where the cycles went", "NICs of none: bytes on PCIe", "<th scope=\"row\">h0 packetiser</th>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	// Who does not ask gets nothing.
	table.Reset()
	if err := Table(&table, run(t, load(t, "quickstart"))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), "NIC") {
		t.Errorf("a scenario without measure.nic has\n%s", table.String())
	}
}

// Every way in which a NIC may be limited has its sentence.
func TestBottleneck(t *testing.T) {
	stage := func(name string, busy int64, why string, stalled int64) NICStage {
		s := NICStage{Stage: name, ClockHz: 1e9, Served: 10, Elapsed: 1000, Busy: busy, Idle: 1000 - busy - stalled}
		if why != "" {
			s.Stalled = map[string]int64{why: stalled}
		}
		return s
	}
	pcie := func(direction string, busy Float, purposes map[string]int64) NICPCIe {
		return NICPCIe{Direction: direction, Busy: busy, Bytes: 1000, ByPurpose: purposes, PerRequest: 100}
	}
	quiet := []NICPCIe{pcie(ToHost, 0.1, map[string]int64{"cqe": 1000}), pcie(FromHost, 0.2, map[string]int64{"payload": 1000})}
	for _, c := range []struct {
		u    NICUse
		want string
	}{
		{NICUse{Stages: []NICStage{stage("mac", 998, "", 0)}, PCIe: quiet}, "h0's NIC: the wire is busy 99.8 %; next is PCIe from the host, 20.0 %"},
		{
			NICUse{Stages: []NICStage{stage("mac", 500, "", 0)}, PCIe: []NICPCIe{pcie(ToHost, 0.97, map[string]int64{"payload": 800, "cqe": 200}), quiet[1]}},
			"h0's NIC: PCIe to the host is busy 97.0 %, 100.0 bytes a request, 80.0 % of them payload; next is the wire, 50.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 100, "", 0)}, PCIe: []NICPCIe{quiet[0], pcie(FromHost, 0.95, map[string]int64{"doorbell": 900, "payload": 100})}},
			"h0's NIC: PCIe from the host is busy 95.0 %, 100.0 bytes a request, 90.0 % of them doorbell; next is the wire, 10.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("wqe", 700, "", 0)}, PCIe: quiet},
			"h0's NIC: stage wqe is busy 70.0 %, 70 cycles for each of 10; next is PCIe from the host, 20.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("scheduler", 50, "tx_buffer", 900), stage("packetiser", 100, "pcie", 890)}, PCIe: quiet},
			"h0's NIC: stage scheduler waits 90.0 % of its time for room before the wire, stage packetiser waits 89.0 % of its time for data over PCIe, and nothing is busy for more than 20.0 % (PCIe from the host): latency limits, not a rate",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 4, WaitUs: 5.5}, {Queue: "queue pairs", Came: 1, Mean: 1, WaitUs: 5}}},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. 4.0 requests are under way on average, 5.50 us each: that latency limits, and how many the workload keeps under way",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 0.1, WaitUs: 5.5}, {Queue: "queue pairs", Came: 1, Mean: 0.05, WaitUs: 5}}},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. 0.10 requests are under way on average, 5.50 us each: the workload asks for no more",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "requests", Came: 9, Mean: 4, WaitUs: 5.5}, {Queue: "completions", Came: 9, Mean: 40, WaitUs: 55}}},
			"h0's NIC: the host limits, which has 40.0 completions to poll on average, 55.00 us each, of requests that take 5.50 us; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet},
			"h0's NIC: no stage above 60.0 %; the busiest is the wire, 30.0 %. It answers others, who limit, or the network does",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "pause", 650), stage("scheduler", 50, "tx_buffer", 640)}, PCIe: quiet},
			"h0's NIC: the wire waits 65.0 % of its time for the end of a pause, stage scheduler waits 64.0 % of its time for room before the wire: the network limits; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0)}, PCIe: quiet, Queues: []NICQueue{{Queue: "queue pairs", Mean: 4}}, Waits: []NICWait{{Where: "queue pairs", For: "the window", Mean: 0.2}, {Where: "queue pairs", For: "the pace", Mean: 3.6}}},
			"h0's NIC: the rate of the engine, or the one that was set, limits, for which 3.6 of 4.0 queue pairs with requests wait on average; the busiest is the wire, 30.0 %",
		},
		{
			NICUse{Stages: []NICStage{stage("mac", 300, "", 0), stage("scheduler", 50, "tx_buffer", 940)}, PCIe: quiet, Waits: []NICWait{{Where: "pcie", For: "a tag", Mean: 2.5, Taken: true}}},
			"h0's NIC: the number of PCIe reads at a time (tags) limits, for which 2.5 wait on average; the busiest is the wire, 30.0 %",
		},
	} {
		c.u.NIC = "h0"
		if got := c.u.limit(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
