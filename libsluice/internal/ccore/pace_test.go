package ccore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

const segmentBytes units.Bytes = 16384

var paceEnv = cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096}

type pacedFlow struct {
	driver      cc.Driver
	sent, acked units.Bytes
	id          ratelimiter.FlowID
	filed       bool
}

type pacedAck struct {
	at, sentAt units.Time
	flow       ratelimiter.FlowID
}

// pacer is testdata/pace.c in Go.
type pacer struct {
	sched       *ratelimiter.Scheduler
	flows       []pacedFlow
	acks        [1 << 16]pacedAck
	first, last uint32
	now, latest units.Time
	dice        uint64
	digest      uint64
	ack         cc.Ack
}

func newPacer(t testing.TB, e *engine, n int) *pacer {
	t.Helper()
	p := &pacer{dice: 1, flows: make([]pacedFlow, n)}
	var err error
	if p.sched, err = ratelimiter.New(ratelimiter.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	for i := range p.flows {
		f := &p.flows[i]
		made, err := e.make(e.configs[0], paceEnv)
		if err != nil {
			t.Fatal(err)
		}
		f.driver.Start(made, paceEnv.LineRate, segmentBytes, paceEnv.BaseRTT)
		if f.id, err = p.sched.AddFlow(paced(f.driver.Control().Rate)); err != nil {
			t.Fatal(err)
		}
		p.file(f)
	}
	return p
}

func paced(r units.Rate) units.Rate {
	if r >= paceEnv.LineRate {
		return ratelimiter.Unpaced
	}
	return r
}

func (p *pacer) mix(v int64) { p.digest = (p.digest ^ uint64(v)) * 0x100000001b3 }

func (p *pacer) file(f *pacedFlow) {
	if f.filed || f.sent-f.acked >= 32*segmentBytes {
		return
	}
	if !f.driver.Fits(f.sent-f.acked, segmentBytes) {
		f.driver.Shut()
		return
	}
	p.sched.Enqueue(p.now, f.id, segmentBytes)
	f.filed = true
}

func (p *pacer) take(k *pacedAck) {
	f := &p.flows[k.flow]
	f.acked += segmentBytes
	a := &p.ack
	rtt := p.now - k.sentAt
	*a = cc.Ack{
		Now: p.now, SentAt: k.sentAt, RTT: rtt, NetRTT: max(rtt-units.Time(segmentBytes*80), 0), Bytes: segmentBytes, Packets: 4, Acked: f.acked, Sent: f.sent,
		MaxHopDelay: rtt / 4, HasMaxDelay: true, ECN: rtt > 40*us,
	}
	f.driver.Complete(a, f.sent-f.acked)
	c := f.driver.Engine().OnAck(a)
	if f.driver.Apply(c)&cc.ChangedRate != 0 {
		_ = p.sched.SetRate(f.id, paced(c.Rate))
	}
	p.mix(int64(c.Rate))
	p.mix(int64(c.Window))
	p.file(f)
}

func (p *pacer) send(id ratelimiter.FlowID) {
	f := &p.flows[id]
	f.filed = false
	f.sent += segmentBytes
	f.driver.Sent(p.now, segmentBytes)
	p.dice = p.dice*6364136223846793005 + 1442695040888963407
	p.latest = max(p.latest, p.now+paceEnv.BaseRTT+units.Time(p.dice>>38))
	p.acks[p.last%uint32(len(p.acks))] = pacedAck{p.latest, p.now, id}
	p.last++
	p.mix(int64(p.now))
	p.mix(int64(id))
	p.file(f)
}

func (p *pacer) run(segments int) {
	for segments > 0 {
		due := p.sched.NextDue()
		if p.first != p.last && p.acks[p.first%uint32(len(p.acks))].at <= max(due, p.now) {
			k := &p.acks[p.first%uint32(len(p.acks))]
			p.first++
			p.now = max(p.now, k.at)
			p.take(k)
			continue
		}
		p.now = max(p.now, due)
		if id, ok := p.sched.Dequeue(p.now); ok {
			p.send(id)
			segments--
		}
	}
}

func buildPace(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "engines.h"), []byte(list()), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "pace")
	ctest.Compile(t, "-O2", "-Isrc", "-I"+dir, "-o", program, "testdata/pace.c", core(t, "-O2"))
	return program
}

// Engine, driver and scheduler together pace as in Go: the same segments at the same
// times with the same answers.
func TestAPacedLoopIsGoBitForBit(t *testing.T) {
	const segments = 100_000
	program := buildPace(t)
	for i := range engines {
		e := &engines[i]
		for _, n := range []int{1, 100} {
			out, err := exec.Command(program, e.name, strconv.Itoa(n), strconv.Itoa(segments)).Output()
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			p := newPacer(t, e, n)
			p.run(segments / 2)
			p.latest = p.now
			p.run(segments / 2)
			if got, want := strings.Fields(string(out))[0], fmt.Sprintf("%x", p.digest); got != want {
				t.Errorf("%s, %d flows: C's digest is %s, Go's %s", e.name, n, got, want)
			}
		}
	}
}

// A process that forks goes on in both halves: there is no thread to be lost, and
// nothing outside of the program's memory.
func TestItSurvivesFork(t *testing.T) {
	program := buildPace(t)
	out, err := exec.Command(program, "timely", "10", "20000", "fork").Output()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := exec.Command(program, "timely", "10", "20000").Output()
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Fields(string(whole))[0]
	if text := string(out); !strings.Contains(text, digest+" parent") || !strings.Contains(text, digest+" child") {
		t.Errorf("parent and child print %q, a process that does not fork %s", text, digest)
	}
}

// BenchmarkPace measures a segment's cost, from the scheduler to the engine's answer; C's
// clock is its own.
func BenchmarkPace(b *testing.B) {
	for _, name := range []string{"none", "timely", "swift", "dctcp"} {
		var e *engine
		for i := range engines {
			if engines[i].name == name {
				e = &engines[i]
			}
		}
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("Go/%s/%d", name, n), func(b *testing.B) {
				p := newPacer(b, e, n)
				p.run(10_000)
				b.ResetTimer()
				p.run(b.N)
			})
			b.Run(fmt.Sprintf("C/%s/%d", name, n), func(b *testing.B) {
				out, err := exec.Command(buildPace(b), name, strconv.Itoa(n), strconv.Itoa(2*max(b.N, 10_000))).Output()
				if err != nil {
					b.Fatal(err)
				}
				ns, err := strconv.ParseFloat(strings.Fields(string(out))[1], 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(ns, "ns/op")
			})
		}
	}
}
