package nicmodel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// drawSharing has a NIC divide what it sends by three functions and up to three classes.
func drawSharing(t *rapid.T, c *config.Config) {
	c.Functions = make([]config.Function, 3)
	for i := range c.Functions {
		f := &c.Functions[i]
		if rapid.Bool().Draw(t, "a most") {
			f.MaxTxRate = units.Rate(rapid.IntRange(1, 100).Draw(t, "most")) * units.Gbps
		}
		if f.MinTxRate = units.Rate(rapid.IntRange(0, 50).Draw(t, "least")) * units.Gbps; f.MaxTxRate > 0 {
			f.MinTxRate = min(f.MinTxRate, f.MaxTxRate)
		}
	}
	c.Egress = rapid.SampledFrom([]config.Egress{
		{},
		{TSA: []string{config.TSAStrict, config.TSAStrict, config.TSAStrict}, PrioTC: []int{0, 1, 2}},
		{TSA: []string{config.TSAETS, config.TSAETS, config.TSAStrict}, PrioTC: []int{0, 1, 2}, TCBW: []int{30, 70, 0}},
		{TSA: []string{config.TSAETS, config.TSAETS}, PrioTC: []int{1, 0, 1}, TCBW: []int{0, 100}},
	}).Draw(t, "egress")
}

// tenant is a load of host 0.
type tenant struct {
	to, pairs int
	size      uint32
	op        ib.WROpcode
	priority  uint8
	function  int
}

// shareOf runs tenants of host 0 of a network of 100 Gbps and returns what each sent, in Gbps of payload.
func shareOf(t *testing.T, cfg config.Config, tenants ...tenant) []float64 {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, len(tenants)+1, 100*units.Gbps, cfg, func(c *fabric.Config) { c.Priorities = fabric.MaxPriorities })
	const begin, end = 100 * units.Microsecond, 600 * units.Microsecond
	for i, x := range tenants {
		p := pairLoad{from: 0, to: i + 1, op: x.op, size: x.size, window: 16, batch: 1, spread: 1, priority: x.priority, function: x.function}
		if x.op == ib.WRRDMARead { // by others, from host 0
			p.from, p.to = p.to, p.from
		}
		for range x.pairs {
			b.drive(p, end)
		}
	}
	got := make([]float64, len(tenants))
	count := func(sign float64) {
		for i := range tenants {
			for _, q := range b.nics[i+1].pairs.all {
				got[i] += sign * float64(q.delivered.Payload)
			}
		}
	}
	b.e.RunUntil(begin)
	count(-1)
	b.e.RunUntil(end)
	count(1)
	for i := range got {
		got[i] *= 8e3 / float64(end-begin)
	}
	return got
}

// Tenants whose frames have 1024 bytes of payload get these rates, within 3 percent of the line.
func TestSharesOfTheWire(t *testing.T) {
	const write, read = ib.WRRDMAWrite, ib.WRRDMARead
	all := 100 * 1024.0 / 1106 // a frame has 82 bytes beside its payload
	ets := func(tcbw ...int) config.Egress {
		c := config.Egress{TCBW: tcbw}
		for i := range tcbw {
			c.PrioTC, c.TSA = append(c.PrioTC, i), append(c.TSA, config.TSAETS)
		}
		return c
	}
	rates := func(all ...config.Function) []config.Function { return all }
	for name, c := range map[string]struct {
		egress    config.Egress
		functions []config.Function
		tenants   []tenant
		want      []float64
	}{
		"by queue pairs without any": {tenants: []tenant{{1, 1, 8192, write, 0, 0}, {2, 4, 8192, write, 0, 0}}, want: []float64{all / 5, all * 4 / 5}},
		"ETS, however many queue pairs": {
			egress: ets(25, 75), want: []float64{all / 4, all * 3 / 4},
			tenants: []tenant{{1, 8, 8192, write, 0, 0}, {2, 2, 8192, write, 1, 0}},
		},
		"ETS, of requests and READ responses": {
			egress: ets(25, 75), want: []float64{all / 4, all * 3 / 4},
			tenants: []tenant{{1, 4, 8192, read, 0, 0}, {2, 4, 8192, write, 1, 0}},
		},
		"ETS leaves nothing idle": {egress: ets(10, 90), tenants: []tenant{{1, 4, 8192, write, 0, 0}}, want: []float64{all}},
		"ETS, one without a share": {
			egress: ets(0, 40, 60), want: []float64{0, all * 0.4, all * 0.6},
			tenants: []tenant{{1, 4, 8192, write, 0, 0}, {2, 4, 8192, write, 1, 0}, {3, 4, 8192, write, 2, 0}},
		},
		"strict before ETS": {
			egress: config.Egress{PrioTC: []int{0, 0, 1}, TSA: []string{config.TSAETS, config.TSAStrict}, TCBW: []int{100}}, want: []float64{0, all},
			tenants: []tenant{{1, 8, 8192, write, 1, 0}, {2, 4, 8192, write, 2, 0}},
		},
		"a most": {
			functions: rates(config.Function{}, config.Function{MaxTxRate: 20 * units.Gbps}), want: []float64{all * 0.8, 20 * 1024 / 1086.0},
			tenants: []tenant{{1, 4, 8192, write, 0, 0}, {2, 8, 8192, write, 0, 1}},
		},
		"a most of READ responses": {
			functions: rates(config.Function{}, config.Function{MaxTxRate: 20 * units.Gbps}), want: []float64{20 * 1024 / 1086.0},
			tenants: []tenant{{1, 8, 8192, read, 0, 1}},
		},
		"functions without rates, alike": {
			functions: rates(config.Function{}, config.Function{}), want: []float64{all / 2, all / 2},
			tenants: []tenant{{1, 1, 8192, write, 0, 0}, {2, 16, 8192, write, 0, 1}},
		},
		"guarantees are shares": {
			functions: rates(config.Function{MinTxRate: 60 * units.Gbps}, config.Function{MinTxRate: 30 * units.Gbps}), want: []float64{all * 2 / 3, all / 3},
			tenants: []tenant{{1, 1, 8192, write, 0, 0}, {2, 16, 8192, write, 0, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := preset(t, "cx6dx")
			cfg.Egress, cfg.Functions = c.egress, c.functions
			got := shareOf(t, cfg, c.tenants...)
			for i, want := range c.want {
				if got[i] < want-3 || got[i] > want+3 {
					t.Errorf("tenant %d has %.1f Gbps, expected %.1f (all %.1f)", i, got[i], want, got)
				}
			}
		})
	}
}

// A function sends no more than its rate over any span, but for what catches up with it.
func TestFunctionKeepsItsRate(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Functions = []config.Function{{MaxTxRate: 10 * units.Gbps}}
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	type frame struct {
		at    units.Time
		bytes units.Bytes
	}
	var sent []frame
	b.nics[0].mac.capture = func(now units.Time, h fabric.Handle) {
		sent = append(sent, frame{now, units.Bytes(b.nics[0].chip.Frames.At(h).Wire.Size)})
	}
	for range 5 {
		b.drive(pairLoad{from: 0, to: 1, op: ib.WRRDMAWrite, size: 5000, window: 8, batch: 1, spread: 1}, 200*units.Microsecond)
	}
	b.e.RunUntil(200 * units.Microsecond)
	if len(sent) < 100 {
		t.Fatalf("only %d frames", len(sent))
	}
	for i := range sent {
		bytes := units.Bytes(0)
		for _, f := range sent[i:] {
			bytes += f.bytes
			// A frame, 1 us of catching up, and the frames whose reads of payload took longer.
			if most := (10 * units.Gbps).BytesIn(f.at-sent[i].at+2*units.Microsecond) + 1086; bytes > most {
				t.Fatalf("%d bytes from %v to %v, the most are %d", bytes, sent[i].at, f.at, most)
			}
		}
	}
}

func TestSharesAllocateNothing(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Egress = config.Egress{PrioTC: []int{0, 1}, TSA: []string{config.TSAETS, config.TSAETS}, TCBW: []int{40, 60}}
	cfg.Functions = []config.Function{{}, {MaxTxRate: 60 * units.Gbps}}
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	for i := range 4 {
		b.drive(pairLoad{from: 0, to: 1, op: ib.WRRDMAWrite, size: 1 << 20, window: 60, batch: 1, spread: 1, priority: uint8(i % 2), function: i % 2}, 0)
	}
	b.e.RunUntil(100 * units.Microsecond)
	b.allocatesNothing()
}
