package nictrace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

type traceEvent struct {
	Ph, Cat, Name string
	Pid, Tid      int
	Ts, Dur       float64
	Args          map[string]any
}

func (e *traceEvent) from() units.Time { return units.Time(math.Round(e.Ts * 1e6)) }
func (e *traceEvent) to() units.Time   { return e.from() + units.Time(math.Round(e.Dur*1e6)) }

// traceOf runs a scenario and returns what was traced.
func traceOf(t *testing.T, f nictrace.Filter, name string, sets ...string) ([]traceEvent, *results.Result) {
	t.Helper()
	var b bytes.Buffer
	trace := nictrace.NewTrace(&b, f)
	r := runWith(t, bench.Options{NICTrace: trace}, name, sets...)
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	var out struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	spans := 0
	for _, e := range out.TraceEvents {
		if e.Ph == "X" {
			spans++
		}
	}
	if spans != trace.Events() {
		t.Errorf("%d spans in the file, and %d were written", spans, trace.Events())
	}
	return out.TraceEvents, r
}

// The spans of a thread nest or follow each other; the parts of a request fill it
// without gap or overlap, and so add up to its latency.
func TestNICTraceNestsAndAddsUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		sets  []string
		parts []string // of some request
	}{
		{"nic-small-writes", []string{"workloads[0].connections=4", "duration=110us"}, []string{"doorbell store", "doorbell", "wqe", "wait for the scheduler", "scheduler", "payload fetch", "packetiser", "wait for the wire", "wire", "network and peer", "network", "receive at the peer", "answer of the peer", "network back", "receive", "cqe", "cqe write"}},
		{"quickstart", []string{"workloads[0].message=64KiB"}, []string{"packets before the last", "wqe fetch"}},
		{"quickstart", []string{"workloads[0].operation=read", "nic.mode=offload", "systems=[{engine: none}]"}, []string{"network and peer"}},
		{"storage", []string{"duration=300us", "warmup=0", "workloads[0].stop=200us", "systems=[{engine: timely}]"}, nil},
		{"quickstart", []string{"fabric.pfc.enabled=false", "fabric.buffer=20KiB", "topology={kind: star, hosts: 3, host_rate: 25Gbps}", "workloads[0].flows=[{src: h0, dst: h1, size: 1MB}, {src: h2, dst: h1, size: 1MB}]", "workloads[0].message=16KiB", "systems=[{engine: none}]"}, nil},
	} {
		events, _ := traceOf(t, nictrace.Filter{To: 60 * units.Microsecond}, c.name, c.sets...)
		threads := map[[2]int][]traceEvent{}
		seen := map[string]bool{}
		for _, e := range events {
			if e.Ph != "X" {
				continue
			}
			seen[e.Name] = true
			key := [2]int{e.Pid, e.Tid}
			threads[key] = append(threads[key], e)
		}
		for _, part := range c.parts {
			if !seen[part] {
				t.Errorf("%s: no request has a part %q", c.name, part)
			}
		}
		requests := 0
		for key, spans := range threads {
			slices.SortStableFunc(spans, func(a, b traceEvent) int {
				if a.from() != b.from() {
					return int(a.from() - b.from())
				}
				return int(b.to() - a.to())
			})
			var open []traceEvent
			next := map[int]units.Time{} // by depth, where the next part must begin
			for _, e := range spans {
				for len(open) > 0 && open[len(open)-1].to() <= e.from() {
					if d := len(open); next[d] != 0 && next[d] != open[d-1].to() {
						t.Fatalf("%s: the parts of %q at %v end at %v", c.name, open[d-1].Name, open[d-1].from(), next[d])
					}
					next[len(open)] = 0
					open = open[:len(open)-1]
				}
				d := len(open)
				if d > 0 && e.to() > open[d-1].to() {
					t.Fatalf("%s: thread %v: %q to %v crosses %q to %v", c.name, key, e.Name, e.to(), open[d-1].Name, open[d-1].to())
				}
				if e.Cat == "stage" && d > 0 {
					t.Fatalf("%s: a stage does two things at once: %+v", c.name, e)
				}
				if e.Cat == "part" {
					want := open[d-1].from()
					if next[d] != 0 {
						want = next[d]
					}
					if e.from() != want {
						t.Fatalf("%s: part %q begins at %v, not at %v", c.name, e.Name, e.from(), want)
					}
					next[d] = e.to()
				}
				if e.Cat == "request" {
					requests++
				}
				open = append(open, e)
			}
		}
		if requests < 5 && c.name != "quickstart" || requests < 1 {
			t.Errorf("%s: %d requests", c.name, requests)
		}
	}
}

// A request alone takes as long in the trace as its flow takes: from the post to the
// completion that its host sees.
func TestNICTraceLatencyIsTheFlows(t *testing.T) {
	events, r := traceOf(t, nictrace.Filter{To: units.Second}, "quickstart", "nic.mode=offload", "systems=[{engine: none}]", "workloads[0].flows=[{src: h0, dst: h1, size: 100KB}]")
	var request []traceEvent
	for _, e := range events {
		if e.Cat == "request" {
			request = append(request, e)
		}
	}
	if len(request) != 1 {
		t.Fatalf("%d requests", len(request))
	}
	if fct := r.Systems[0].FCTAvgUs; math.Abs(request[0].Dur-float64(fct)) > 0.01*float64(fct) {
		t.Errorf("the request takes %v us, the flow %v us", request[0].Dur, fct)
	}
	if n := request[0].Args["packets"]; n != float64(98) {
		t.Errorf("%v packets", n)
	}
}

// Window and filter hold; what is traced changes nothing of the results.
func TestNICTraceFilter(t *testing.T) {
	const name = "nic-small-writes"
	sets := []string{"workloads[0].connections=4", "duration=140us"}
	all, with := traceOf(t, nictrace.Filter{To: units.Second}, name, sets...)
	without := runWith(t, bench.Options{}, name, sets...)
	if a, b := with.Systems[0], without.Systems[0]; a.Bytes != b.Bytes || a.Events != b.Events {
		t.Errorf("traced: %d bytes, %d events; not traced: %d and %d", a.Bytes, a.Events, b.Bytes, b.Events)
	}
	from, to := 105*units.Microsecond, 115*units.Microsecond
	few, _ := traceOf(t, nictrace.Filter{From: from, To: to, Of: []nictrace.QueuePair{{Host: "h0", QPN: 0x20}}}, name, sets...)
	inside := 0
	for _, e := range all {
		if e.Cat == "request" && e.from() < to && e.to() > from && e.Args["qp"] == float64(0x20) {
			inside++
		}
	}
	got := 0
	for _, e := range few {
		if e.Ph != "X" {
			continue
		}
		if e.Cat == "request" {
			got++
		}
		if e.Cat != "part" && (e.from() >= to || e.to() <= from || e.Args["qp"] != float64(0x20)) {
			t.Fatalf("shown: %+v", e)
		}
	}
	if got != inside || got == 0 {
		t.Errorf("%d requests in the window, %d shown", inside, got)
	}
	if none, _ := traceOf(t, nictrace.Filter{To: units.Second, Of: []nictrace.QueuePair{{Host: "h1"}}}, name, sets...); len(none) > 0 {
		t.Errorf("h1 asks for nothing, and has %d events", len(none))
	}
}

func TestNICTraceRefuses(t *testing.T) {
	for _, c := range []struct {
		set, want string
		of        string
	}{
		{"nic.model=reduced", "set nic.model to staged", "h0"},
		{"nic.mtu=1024", `there is no host "h9"`, "h9"},
	} {
		var b bytes.Buffer
		_, err := bench.Run(builtin(t, "quickstart", c.set), bench.Options{NICTrace: nictrace.NewTrace(&b, nictrace.Filter{To: 1, Of: []nictrace.QueuePair{{Host: c.of}}})})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
	trace := nictrace.NewTrace(failingWriter{}, nictrace.Filter{To: units.Second})
	runWith(t, bench.Options{NICTrace: trace}, "nic-small-writes", "duration=110us")
	if err := trace.Close(); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no room")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }
