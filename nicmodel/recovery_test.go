package nicmodel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
)

// rough is a wire that loses, doubles and delays.
type rough struct {
	rng                   *rand.Rand
	drop, duplicate, late float64
}

func (w *rough) Carry(units.Time, int, int) (f fault.Fate) {
	f.Drop = w.rng.Float64() < w.drop
	f.Duplicate = w.rng.Float64() < w.duplicate
	if f.Duplicate || w.rng.Float64() < w.late {
		f.Delay = 1 + units.Time(w.rng.IntN(3000))*units.Nanosecond
	}
	return f
}

// mixed has two hosts write to and read from each other, 40 requests of some lengths each
// way, and returns their completions in order. Data are checked.
func mixed(t testing.TB, fail func(string, ...any), cfg config.Config, seed uint64, wire *rough) (all [2][]CQE, counters [2]rc.Counters) {
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	if wire != nil {
		for _, n := range b.nics {
			n.Impair(wire)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	x, y := b.connect(0, 1, [2]Congestion{}, rc.SendConfig{Timeout: 4, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 8}, 1024)
	ends := [2]end{x, y}
	const requests, most = 40, 30_000
	var mine, theirs, read [2][]byte // each host's memory: the source of all, the target of the other's WRITEs, that of its READs
	var from, to, into [2]memory.Region
	for i, e := range ends {
		mine[i], theirs[i], read[i] = pattern(requests*most, byte(i+1)), make([]byte, requests*most), make([]byte, requests*most)
		from[i], to[i], into[i] = e.region(t, mine[i]), e.region(t, theirs[i]), e.region(t, read[i])
	}
	type span struct {
		off, n int
		read   bool
	}
	var spans [2][]span
	for i, e := range ends {
		for k := range requests {
			s := span{k * most, 1 + rng.IntN(most), rng.IntN(3) == 0}
			if rng.IntN(2) == 0 {
				s.n = 1 + rng.IntN(1024)
			}
			spans[i] = append(spans[i], s)
			wr := WR{Request: rc.Request{ID: uint64(k), Op: ib.WRRDMAWrite, Signaled: true, Length: uint32(s.n)}}
			local, remote := from[i], to[1-i]
			if s.read {
				wr.Request.Op, local, remote = ib.WRRDMARead, into[i], from[1-i]
			}
			wr.SGL = []memory.SGE{{Addr: local.Addr + uint64(s.off), Length: uint32(s.n), Key: local.Key}}
			wr.Request.RemoteAddr, wr.Request.RKey = remote.Addr+uint64(s.off), remote.Key
			b.post(e, wr)
		}
	}
	b.e.RunUntil(units.Second)
	for i, e := range ends {
		all[i] = b.poll(e)
		counters[i] = e.nic.Counters(e.qpn)
		last := -1
		for _, c := range all[i] {
			if c.Status != ib.WCSuccess || int(c.WRID) <= last {
				fail("host %d: completion %+v behind %d", i, c, last)
			}
			last = int(c.WRID)
			s := spans[i][c.WRID]
			switch {
			case s.read && !bytes.Equal(read[i][s.off:][:s.n], mine[1-i][s.off:][:s.n]):
				fail("host %d: READ %d brought wrong bytes", i, c.WRID)
			case !s.read && !bytes.Equal(theirs[1-i][s.off:][:s.n], mine[i][s.off:][:s.n]):
				fail("host %d: WRITE %d is not in memory", i, c.WRID)
			}
		}
		if len(all[i]) != requests {
			fail("host %d: %d completions of %d", i, len(all[i]), requests)
		}
		if n := e.nic.Queues(b.e.Now())[1].Now; n != 0 {
			fail("host %d: %d requests are not over: %+v", i, n, counters[i])
		}
	}
	if live := b.net.Live(); live != 0 {
		fail("%d packets are never freed", live)
	}
	return all, counters
}

func selective(t testing.TB, reorder int) config.Config {
	cfg := preset(t, "cx6dx")
	cfg.Transport = config.Transport{Loss: config.SelectiveRepeat, Reorder: reorder, RTOHigh: 100 * units.Microsecond, RTOLow: 50 * units.Microsecond}
	return cfg
}

// TestSelectiveRepeatOverARoughWire: each request completes once, in order, with its data.
func TestSelectiveRepeatOverARoughWire(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		wire := &rough{
			rng:       rand.New(rand.NewPCG(seed, 4)),
			drop:      rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.03}).Draw(rt, "drop"),
			duplicate: rapid.SampledFrom([]float64{0, 0.01}).Draw(rt, "duplicate"),
			late:      rapid.SampledFrom([]float64{0, 0.01, 0.1}).Draw(rt, "late"),
		}
		mixed(t, rt.Fatalf, selective(t, rapid.SampledFrom([]int{0, 64, 256}).Draw(rt, "reorder")), seed, wire)
	})
}

// TestSelectiveRepeatWithoutLoss: where nothing is lost the results are those of go-back-N.
func TestSelectiveRepeatWithoutLoss(t *testing.T) {
	for seed := range uint64(5) {
		want, _ := mixed(t, t.Fatalf, preset(t, "cx6dx"), seed, nil)
		cfg := preset(t, "cx6dx")
		cfg.Transport.Loss = config.SelectiveRepeat
		got, counters := mixed(t, t.Fatalf, cfg, seed, nil)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: completions %v\nwith go-back-N %v", seed, got, want)
		}
		for _, c := range counters {
			if c.RetransmittedPackets > 0 || c.SentPackets == 0 {
				t.Errorf("seed %d: %+v", seed, c)
			}
		}
	}
}

// TestSelectiveRepeatSendsLess: over one and the same wire far fewer packets go again.
func TestSelectiveRepeatSendsLess(t *testing.T) {
	var again [2]uint64
	for i, cfg := range []config.Config{preset(t, "cx6dx"), selective(t, 0)} {
		for seed := range uint64(20) {
			_, counters := mixed(t, t.Fatalf, cfg, seed, &rough{rng: rand.New(rand.NewPCG(seed, 5)), drop: 0.005})
			again[i] += counters[0].RetransmittedPackets + counters[1].RetransmittedPackets
		}
	}
	t.Logf("go-back-N sends %d packets again, selective repeat %d", again[0], again[1])
	if again[1] == 0 || again[1]*3 > again[0] {
		t.Errorf("go-back-N sends %d packets again, selective repeat %d: expected at most a third", again[0], again[1])
	}
}

func TestTransportIsChecked(t *testing.T) {
	for _, c := range []config.Transport{
		{Loss: 2}, {Loss: config.SelectiveRepeat, Reorder: 32}, {Loss: config.SelectiveRepeat, Reorder: 100}, {Reorder: 64}, {RTOLow: units.Millisecond},
		{RTOHigh: 1}, {RTOHigh: 100 * units.Second},
	} {
		cfg := preset(t, "cx6dx")
		cfg.Transport = c
		if cfg.Validate() == nil {
			t.Errorf("%+v: expected an error", c)
		}
	}
	var r config.LossRecovery
	if err := r.UnmarshalText([]byte("irn")); err == nil {
		t.Error("irn: expected an error")
	}
}
