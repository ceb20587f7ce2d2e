package wirestamp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// The benchmark's other processes are this program, told so by this variable.
const roleVar = "WIRESTAMP_BENCH_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "peer":
		if err := servePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "burner":
		for n := 0; ; n++ { // until it is killed
			_ = n
		}
	}
	os.Exit(m.Run())
}

// servePeer answers connections, each told by a line, until there are no more.
func servePeer(in io.Reader, out io.Writer) error {
	dev, err := verbs.Open("soft:v1")
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(verbs.CQInitAttr{CQE: 16})
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(make([]byte, 1<<20), ib.AccessLocalWrite|ib.AccessRemoteWrite)
	if err != nil {
		return err
	}
	gid, err := dev.GID(1, 0)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var addr string
		var qpn uint32
		if _, err := fmt.Sscan(lines.Text(), &addr, &qpn); err != nil {
			return err
		}
		peer, err := netip.ParseAddr(addr)
		if err != nil {
			return err
		}
		qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		if err != nil {
			return err
		}
		p := verbs.DefaultRC()
		p.PathMTU = 4096
		if err := verbs.ConnectRC(qp, verbs.Endpoint{GID: gid, QPN: qp.Num()}, verbs.Endpoint{GID: peer, QPN: qpn}, p); err != nil {
			return err
		}
		fmt.Fprintln(out, gid, qp.Num(), mr.Addr(), mr.RKey())
	}
	return nil // and the process takes everything with it
}

// start runs this program in another role until the benchmark ends; prompt gives it
// the processor whenever it wants it, as one on a machine of its own would have.
func start(b *testing.B, role string, prompt bool) (io.Writer, *bufio.Scanner) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	runtime.LockOSThread()
	if prompt { // what this thread starts inherits its policy
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}, 0)
		if errors.Is(err, os.ErrPermission) {
			b.Skipf("no real-time priority here: %v", err)
		}
		must(b, err)
	}
	err = cmd.Start()
	must(b, unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0))
	runtime.UnlockOSThread()
	must(b, err)
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return in, bufio.NewScanner(out)
}

// sender is a shim over one of the ways to know when a segment was acknowledged.
type sender struct {
	name      string
	shim      *paced.Shim
	cq        verbs.CQ
	qp        verbs.QP
	wr        verbs.SendWR
	measuring bool
	rtts      []units.Time
	bytes     units.Bytes
	took      time.Duration
}

// steady is a rate engine that keeps a rate.
type steady struct{ control cc.Control }

func (s steady) OnAck(*cc.Ack) cc.Control        { return s.control }
func (s steady) OnLoss(units.Time) cc.Control    { return s.control }
func (s steady) OnTimeout(units.Time) cc.Control { return s.control }
func (s steady) OnCNP(units.Time) cc.Control     { return s.control }
func (s steady) Control() cc.Control             { return s.control }

// sources are the ways: the name, whether the device is wrapped, and whether its
// timestamps are used.
var sources = []struct {
	name          string
	wire, stamped bool
}{{"polled", false, false}, {"receive stamp", false, true}, {"wire", true, true}}

func newSenders(b *testing.B, w *world, timely bool, peer io.Writer, answers *bufio.Scanner) []*sender {
	var senders []*sender
	for i, src := range sources {
		s := &sender{name: src.name}
		cfg := paced.DefaultConfig()
		cfg.LineRate = 100 * units.Gbps // a veth pair has none: as good as no serialisation
		cfg.Scheme = "timely"
		if !timely {
			cfg.Scheme, cfg.Engine = "", func(cc.Env) (cc.Engine, error) {
				return steady{cc.Control{Rate: 500 * units.Mbps, Window: cc.Unlimited}}, nil
			}
		}
		if !src.stamped {
			cfg.CalibrateEvery = 0
		}
		cfg.Observe = func(_ *paced.QP, a *cc.Ack, _ cc.Control) {
			if s.measuring {
				s.rtts = append(s.rtts, a.NetRTT)
				s.bytes += a.Bytes
			}
		}
		w.in(b, 0, func() {
			dev, err := verbs.Open(fmt.Sprintf("soft:10.9.0.%d", 11+i))
			must(b, err)
			if src.wire {
				dev, err = Wrap(dev, "v0")
				must(b, err)
			}
			s.shim, err = paced.Wrap(dev, cfg)
			must(b, err)
		})
		pd, err := s.shim.AllocPD()
		must(b, err)
		s.cq, err = s.shim.CreateCQ(verbs.CQInitAttr{CQE: 64})
		must(b, err)
		s.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 1}})
		must(b, err)
		const message = 64 << 10
		mr, err := pd.RegMR(make([]byte, message), ib.AccessLocalWrite)
		must(b, err)
		gid, err := s.shim.GID(1, 0)
		must(b, err)
		fmt.Fprintln(peer, gid, s.qp.Num())
		if !answers.Scan() {
			b.Fatal("the peer is gone")
		}
		var addr string
		var there verbs.Endpoint
		_, err = fmt.Sscan(answers.Text(), &addr, &there.QPN, &s.wr.RemoteAddr, &s.wr.RKey)
		must(b, err)
		there.GID = netip.MustParseAddr(addr)
		p := verbs.DefaultRC()
		p.PathMTU = 4096
		must(b, verbs.ConnectRC(s.qp, verbs.Endpoint{GID: gid, QPN: s.qp.Num()}, there, p))
		s.wr.Opcode, s.wr.Flags = ib.WRRDMAWrite, verbs.SendSignaled
		s.wr.SGL = []verbs.SGE{verbs.SGEOf(mr, 0, message)}
		senders = append(senders, s)
		b.Cleanup(func() {
			must(b, errors.Join(s.qp.Close(), mr.Close(), s.cq.Close(), pd.Close(), s.shim.Close()))
		})
	}
	return senders
}

// run writes for that long, two messages at a time, and waits for the rest.
func (s *sender) run(b *testing.B, span time.Duration) {
	var wc [8]verbs.WC
	out := 0
	begin := time.Now()
	s.measuring = true
	for {
		more := time.Since(begin) < span
		if !more && s.measuring {
			s.measuring = false
			s.took += time.Since(begin)
		}
		if !more && out == 0 {
			return
		}
		for more && out < 2 {
			must(b, post(s.qp, &s.wr))
			out++
		}
		n, err := s.cq.Poll(wc[:])
		must(b, err)
		for _, w := range wc[:n] {
			if w.Status != ib.WCSuccess {
				b.Fatalf("%s: %v", s.name, w.Status)
			}
			out--
		}
	}
}

// report writes a row: where the samples lie, and what the flow carried.
func (s *sender) report(b *testing.B) {
	if len(s.rtts) == 0 {
		b.Fatalf("%s: no samples", s.name)
	}
	slices.Sort(s.rtts)
	at := func(q float64) float64 { return us(quantile.Of(s.rtts, q)) }
	st := s.shim.Stats()
	b.Logf("%-14s %8d %9.1f %9.1f %9.1f %9.1f %9.1f %8.3f %6.1f%% %6.1f%%", s.name, len(s.rtts), at(0.01), at(0.5), at(0.99), at(0.999), at(0.99)-at(0.01),
		float64(s.bytes)*8/s.took.Seconds()/1e9, 100*float64(st.NICTime)/float64(st.Samples), 100*float64(st.SentTime)/float64(st.Samples))
	name := strings.ReplaceAll(s.name, " ", "-")
	b.ReportMetric(at(0.5), name+"-p50-us")
	b.ReportMetric(at(0.99), name+"-p99-us")
}

func us(t units.Time) float64 { return float64(t) / float64(units.Microsecond) }

// BenchmarkRTTSpread shows the round trips that an engine is given (NetRTT), by the
// time of polling, by the kernel's receive stamps that verbs/softroce has of its own,
// and by stamps at the wire. The three take turns of a fifth of a second on the same pair
// of network namespaces, with their connections to the same peer, another process.
// Burners take as many processors as there are. A prompt peer has real-time
// priority: it stands for another machine, which is not loaded; the network's own
// round trip, which nobody here can know better, is then what remains.
//
// Run it by make bench-wirestamp.
func BenchmarkRTTSpread(b *testing.B) {
	for _, c := range []struct {
		name           string
		burners        bool
		prompt, timely bool
	}{
		{"no burners, fixed rate", false, true, false},
		{"burners, fixed rate", true, true, false},
		{"burners, TIMELY", true, true, true},
		{"burners, peer loaded too, fixed rate", true, false, false},
		{"burners, peer loaded too, TIMELY", true, false, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b)
			w.in(b, 0, func() {
				v, err := netlink.LinkByName("v0")
				must(b, err)
				for i := range sources {
					a, err := netlink.ParseAddr(fmt.Sprintf("10.9.0.%d/24", 11+i))
					must(b, err)
					must(b, netlink.AddrAdd(v, a))
				}
			})
			var peer io.Writer
			var answers *bufio.Scanner
			w.in(b, 1, func() { peer, answers = start(b, "peer", c.prompt) })
			senders := newSenders(b, w, c.timely, peer, answers)
			if c.burners {
				for range runtime.NumCPU() {
					start(b, "burner", false)
				}
			}
			for _, s := range senders {
				s.run(b, 50*time.Millisecond) // to be warm
				s.rtts, s.bytes, s.took = nil, 0, 0
			}
			for b.Loop() {
				for range 15 {
					for _, s := range senders {
						s.run(b, 200*time.Millisecond)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			b.Logf("%-14s %8s %9s %9s %9s %9s %9s %8s %7s %7s", "microseconds", "samples", "p1", "p50", "p99", "p99.9", "p99-p1", "Gbit/s", "stamped", "sent")
			for _, s := range senders {
				s.report(b)
			}
		})
	}
}
