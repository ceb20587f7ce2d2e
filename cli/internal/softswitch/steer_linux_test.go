package softswitch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/cc/poseidon"
	"github.com/sluice-rdma/sluice/cc/powertcp"
	"github.com/sluice-rdma/sluice/cc/pulser"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// The bottleneck of the tests here: two senders, one port of 200 Mbps. Packets of
// 1024 bytes of payload are 1082 bytes of frame, a tag more.
const bottleneck = 200 * units.Mbps

// flow is a sender that writes to a receiver without end.
type flow struct {
	dev   *paced.Shim
	bytes atomic.Int64 // written
	acks  atomic.Int64 // that the engine was told, and those with telemetry
	told  atomic.Int64
	last  atomic.Int64 // the largest delay in ps, or the queue, of the last one
}

// peer is one end's objects.
type peer struct {
	dev verbs.Device
	pd  verbs.PD
	ch  verbs.CompChannel
	cq  verbs.CQ
	mr  verbs.MR
	qps []verbs.QP
}

const message = 64 << 10

func newPeer(t testing.TB, dev verbs.Device, qps int) *peer {
	t.Helper()
	p := &peer{dev: dev}
	var err error
	p.pd, err = dev.AllocPD()
	must(t, err)
	p.ch, err = dev.CreateCompChannel()
	must(t, err)
	p.cq, err = dev.CreateCQ(verbs.CQInitAttr{CQE: 256, Channel: p.ch, Timestamps: true})
	must(t, err)
	p.mr, err = p.pd.RegMR(make([]byte, message), ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead)
	must(t, err)
	for range qps {
		q, err := p.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(t, err)
		p.qps = append(p.qps, q)
	}
	return p
}

func (p *peer) close() error {
	var errs []error
	for _, q := range p.qps {
		errs = append(errs, q.Close())
	}
	return errors.Join(append(errs, p.mr.Close(), p.cq.Close(), p.ch.Close(), p.pd.Close(), p.dev.Close())...)
}

func (p *peer) endpoint(t testing.TB, i int) verbs.Endpoint {
	t.Helper()
	gid, err := p.dev.GID(1, 0)
	must(t, err)
	return verbs.Endpoint{GID: gid, QPN: p.qps[i].Num(), PSN: 99}
}

// steered starts two senders, on hosts 0 and 1, that write to host 2.
func steered(t testing.TB, w *world, options string, cfg paced.Config) (flows [2]*flow) {
	t.Helper()
	urgent(t)
	options = "?mode=packet&window=512&rate=200Mbps&tclass=2&" + options
	open := func(i int) (dev verbs.Device) {
		w.in(t, i, func() {
			var err error
			dev, err = verbs.Open("soft:eth0" + options)
			must(t, err)
		})
		return dev
	}
	recv := newPeer(t, open(2), 2)
	stop := make(chan struct{})
	var ends [3]*peer
	var done [2]chan error
	for i := range flows {
		f := &flow{}
		flows[i] = f
		c := cfg
		c.Observe = func(_ *paced.QP, a *cc.Ack, _ cc.Control) {
			f.acks.Add(1)
			switch {
			case a.HasMaxDelay:
				f.told.Add(1)
				f.last.Store(int64(a.MaxHopDelay))
			case a.Path != nil:
				f.told.Add(1)
				f.last.Store(int64(a.Path.Hops[0].QLen))
			case a.EIN:
				f.told.Add(1)
			}
		}
		shim, err := paced.Wrap(open(i), c)
		must(t, err)
		f.dev = shim
		p := newPeer(t, shim, 1)
		ends[i] = p
		rc := verbs.DefaultRC()
		rc.Timeout = 18 // a second: nothing is lost, but processors may be busy
		a, b := p.endpoint(t, 0), recv.endpoint(t, i)
		must(t, verbs.ConnectRC(p.qps[0], a, b, rc))
		must(t, verbs.ConnectRC(recv.qps[i], b, a, rc))
		done[i] = make(chan error, 1)
		go func() { done[i] <- f.run(p, recv, stop) }()
	}
	ends[2] = recv
	t.Cleanup(func() {
		close(stop)
		err := errors.Join(<-done[0], <-done[1])
		for _, p := range ends {
			err = errors.Join(err, p.close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	return flows
}

// run keeps the queue pair busy until it is told to stop.
func (f *flow) run(p, to *peer, stop <-chan struct{}) error {
	wr := []verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(p.mr, 0, message)}, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
	}}
	wc := make([]verbs.WC, 16)
	for under := 0; ; {
		select {
		case <-stop:
			if under == 0 {
				return nil
			}
		default:
			for ; under < 8; under++ {
				if _, err := p.qps[0].PostSend(wr); err != nil {
					return err
				}
			}
		}
		if err := p.cq.ReqNotify(false); err != nil {
			return err
		}
		n, err := p.cq.Poll(wc)
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			if wc[i].Status != ib.WCSuccess {
				return &verbs.StatusError{WC: wc[i]}
			}
			f.bytes.Add(int64(wc[i].ByteLen))
		}
		if under -= n; n > 0 {
			continue
		}
		if _, err := p.ch.Wait(context.Background(), 30*time.Second); err != nil {
			return err
		}
	}
}

// urgent takes the threads of this process before those of others until the test ends,
// where that is allowed: the senders share the machine with other tests, and what
// is tested is how they share a port. They sleep most of the time.
func urgent(t testing.TB) {
	t.Helper()
	set := func(policy, priority uint32) {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			// Threads that they start later are as they are.
			if err := unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}, 0); err != nil && priority > 0 {
				t.Logf("threads stay as they are: %v", err)
				return
			}
		}
	}
	set(unix.SCHED_RR, 1)
	t.Cleanup(func() { set(unix.SCHED_NORMAL, 0) })
}

// span holds the counts of two flows and the port over a span of time.
type span struct {
	mbps [2]float64 // payload
	port PortStats
}

func measure(sw *Switch, flows [2]*flow, d time.Duration) (s span) {
	var from [2]int64
	for i, f := range flows {
		from[i] = f.bytes.Load()
	}
	sw.ResetDelays()
	begin := time.Now()
	time.Sleep(d) //nolint:forbidigo // rates on real interfaces take real time
	took := time.Since(begin)
	for i, f := range flows {
		s.mbps[i] = float64(f.bytes.Load()-from[i]) * 8e-6 / took.Seconds()
	}
	s.port = sw.Stats().Ports[2]
	return s
}

// until measures spans until one is as it shall be, at most four of them after the
// flows have found their rates. If none is, the test fails; on a machine that has
// more to do than it has processors it is skipped.
func until(t *testing.T, sw *Switch, flows [2]*flow, ok func(s *span) error) {
	t.Helper()
	time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // the same
	var err error
	for range 4 {
		s := measure(sw, flows, 1500*time.Millisecond)
		err = ok(&s)
		t.Logf("%.1f and %.1f Mbps, delay mean %.0f us, p99 %.0f, max %.0f; queue up to %d B; drops %d, marked %d: %v", s.mbps[0], s.mbps[1],
			s.port.DelayMeanUs, s.port.DelayP99Us, s.port.DelayMaxUs, s.port.MaxQueueBytes, s.port.Drops, s.port.Marked, err)
		if err == nil {
			return
		}
	}
	var load float64
	if b, failed := os.ReadFile("/proc/loadavg"); failed == nil {
		_, _ = fmt.Sscan(strings.Fields(string(b))[0], &load)
	}
	if n := runtime.GOMAXPROCS(0); load > float64(n) {
		t.Skipf("%v, with a load of %.1f on %d processors: the senders were held up by others", err, load, n)
	}
	t.Error(err)
}

// share is a half of what the port carries of payload.
const share = 200.0 / 2 * 1024 / 1098

func fair(s *span) error {
	for _, got := range s.mbps {
		if math.Abs(got-share) > 0.15*share {
			return fmt.Errorf("%.1f Mbps, not within 15 percent of the fair %.1f", got, share)
		}
	}
	return nil
}

func bounded(s *span, most units.Time) error {
	if s.port.Drops > 0 || s.port.DelayP99Us > most.Microseconds() {
		return fmt.Errorf("%d drops; the delay's 99th percentile is %.0f us, the bound %v", s.port.Drops, s.port.DelayP99Us, most)
	}
	return nil
}

func bottleneckPorts() []Port {
	p := ports(3)
	p[2].Rate = bottleneck
	return p
}

// scaled is Poseidon for the bottleneck. The paper's targets are for 200 Gbps: here a
// byte lasts a thousand times as long, and so do the delays: p is 40 ms and k 2 ms.
// max_rate is the bottleneck's and min_rate a ten-thousandth of it, as there. Two
// flows then meet at T(100 Mbps) = k + p ln 2 / ln 10000 = 5.0 ms, 125 kB, which is
// what two flows at 200 Gbps have queued.
func scaled() *poseidon.Config {
	c := poseidon.DefaultConfig()
	c.P, c.K = 40*units.Millisecond, 2*units.Millisecond
	c.MaxRate, c.MinRate = bottleneck, bottleneck/10_000
	return &c
}

func pacedConfig(scheme string, config any, base units.Time) paced.Config {
	c := paced.DefaultConfig()
	c.Scheme, c.SchemeConfig = scheme, config
	c.Segment, c.MaxOutstanding = 8*units.KiB, 512*units.KiB
	c.LineRate, c.BaseRTT = bottleneck, base
	c.CatchUp = 2 * units.Millisecond
	return c
}

// Poseidon by the largest delay in a CSIG tag: fair shares, and a queue near the
// target.
func TestPoseidon(t *testing.T) {
	p := bottleneckPorts()
	w := newWorld(t, p)
	sw := w.start(t, Config{Ports: p, Pipeline: program(t, "csig_mpd.p4", "WIDE_STEP_LOG2=10")})
	flows := steered(t, w, "telemetry=csig-wide&step=1024ns", pacedConfig("poseidon", scaled(), units.Millisecond))
	until(t, sw, flows, func(s *span) error {
		const target = 5000 // us
		var far error
		if m := s.port.DelayMeanUs; m < target/2 || m > target*3/2 {
			far = fmt.Errorf("the mean delay is %.0f us, the target %d", m, target)
		}
		return errors.Join(fair(s), far, bounded(s, 10*units.Millisecond))
	})
	for i, f := range flows {
		if told, acks := f.told.Load(), f.acks.Load(); told < acks/2 || told == 0 {
			t.Errorf("sender %d: %d of %d acknowledgements had telemetry", i, told, acks)
		}
	}
}

// PowerTCP by INT: the queue is about what beta adds for each flow.
func TestPowerTCP(t *testing.T) {
	p := bottleneckPorts()
	w := newWorld(t, p)
	// A packet is 13 or 14 cells of 80 bytes.
	sw := w.start(t, Config{Ports: p, Pipeline: program(t, "int.p4", "RATE_CODE=13", "QUEUE_UNITS_PER_PACKET=14")})
	c := powertcp.DefaultConfig()
	c.Flows = 10
	const base = 4 * units.Millisecond
	flows := steered(t, w, "telemetry=int&intrates=13:200Mbps", pacedConfig("powertcp", &c, base))
	until(t, sw, flows, func(s *span) error {
		// Two tenths of the bandwidth-delay product is 0.8 ms.
		return bounded(s, 2*base)
	})
	for i, f := range flows {
		if told, acks := f.told.Load(), f.acks.Load(); told < acks/2 || told == 0 {
			t.Errorf("sender %d: %d of %d acknowledgements had records", i, told, acks)
		}
	}
}

// Pulser by explicit incast notifications and marks.
func TestPulser(t *testing.T) {
	p := bottleneckPorts()
	p[2].ECN = 50_000
	w := newWorld(t, p)
	// The paper's quarter of the rate, in Mbps; a high-water mark of 60 kB in cells;
	// a packet lasts 44 us.
	sw := w.start(t, Config{Ports: p, Pipeline: program(t, "ein.p4",
		"EIN_WINDOW=16", "EIN_THRESHOLD=50", "EIN_HIGH_WATER=750", "EIN_MAX_GAP=50", "QUEUE_UNITS_PER_PACKET=14")})
	c := pulser.DefaultConfig()
	c.SafeCwnd = 16
	flows := steered(t, w, "telemetry=ein", pacedConfig("pulser", &c, units.Millisecond))
	until(t, sw, flows, func(s *span) error {
		if s.port.Marked == 0 {
			return errors.New("nothing was marked")
		}
		return bounded(s, 15*units.Millisecond)
	})
	for i, f := range flows {
		if f.told.Load() == 0 {
			t.Errorf("sender %d has had no notice in %d acknowledgements", i, f.acks.Load())
		}
	}
}

// A sender that wants telemetry and a receiver that knows nothing of it, behind a port
// that takes it off: what is written arrives, with good ICRCs, over IPv4 and IPv6.
func TestPlainPeer(t *testing.T) {
	for name, options := range map[string]string{"csig_mpd.p4": "csig-wide", "poseidon_mpd.p4": "poseidon", "int.p4": "int"} {
		role := "EGRESS_ROLE=strip"
		if name == "int.p4" {
			role = "EGRESS_ROLE=sink"
		}
		p := ports(2)
		w := newWorld(t, p)
		prog, err := p4.Load("../../../p4/"+name, p4.Options{Define: []string{role, "RATE_CODE=0"}})
		must(t, err)
		w.start(t, Config{Ports: p, Pipeline: prog.New()})
		var ends [2]*peer
		for i, o := range []string{"?mode=packet&telemetry=" + options, ""} {
			w.in(t, i, func() {
				dev, err := verbs.Open("soft:eth0" + o)
				must(t, err)
				ends[i] = newPeer(t, dev, 2)
			})
		}
		for gid := range 2 {
			var at [2]verbs.Endpoint
			for i := range ends {
				at[i] = ends[i].endpoint(t, gid)
				at[i].GID, err = ends[i].dev.GID(1, gid)
				must(t, err)
			}
			rc := verbs.DefaultRC()
			rc.Timeout = 16
			must(t, verbs.ConnectRC(ends[0].qps[gid], at[0], at[1], rc))
			must(t, verbs.ConnectRC(ends[1].qps[gid], at[1], at[0], rc))
			for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
				_, err := ends[0].qps[gid].PostSend([]verbs.SendWR{{
					Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(ends[0].mr, 0, message)},
					RemoteAddr: ends[1].mr.Addr(), RKey: ends[1].mr.RKey(),
				}})
				must(t, err)
				var wc [1]verbs.WC
				n, err := verbs.Drain(ends[0].dev, ends[0].cq, wc[:], 30*time.Second)
				if n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
					t.Fatalf("%s, %v, %v: %d completions, %v, %v", name, at[0].GID, op, n, err, wc[0].Status)
				}
				var got verbs.Telemetry
				if ends[0].qps[gid].(verbs.TelemetryQP).CompletionTelemetry(&wc[0], &got) {
					t.Errorf("%s: a peer that returns nothing reports %+v", name, got)
				}
			}
		}
		for i, e := range ends {
			c := e.dev.(interface{ Counters() map[string]uint64 }).Counters()
			if c["rx_icrc_encapsulated"]+c["rx_malformed"] > 0 {
				t.Errorf("%s: end %d: %v", name, i, c)
			}
			must(t, e.close())
		}
	}
}
