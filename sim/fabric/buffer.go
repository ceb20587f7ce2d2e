package fabric

import (
	"math"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// kind holds the parameters that equal ports share: a few kinds
// serve a large network, so that they stay in the nearest cache.
type kind struct {
	delay     units.Time // of propagation, and the latency of the switch it leads to
	rate      units.Rate
	psPerByte uint64 // 0 if that is no whole number, and rate decides
	framing   uint64 // bytes

	lossless, ecn, strict uint8 // priorities
	ein                   uint8 // priorities
	watched, forwards     uint8 // priorities with a watchdog, and those it sends
	telemetry             bool
	random                bool // draws random numbers to mark
	marks                 bool // sets CE or EIN, or has a stage
	stage                 Stage
	records               uint8  // that fill a packet
	recordBytes           uint64 // of a record
	report                *Report
	incast                telemetry.IncastRule // where there is a report
	class                 [MaxPriorities]class
}

type kindKey struct {
	link    Link
	from    SwitchConfig // zero at a host
	latency units.Time   // of the switch it leads to, and of hosts
}

// class is a Class in the units of the hot path.
type class struct {
	alpha      int64 // in units of 1/alphaOne
	xoff, xon  int32 // xoff of 0: by alpha
	kmin, kmax int32
	quantum    int32
	watchdog   units.Time
	pmax       float64
	ein        incastRule
}

func newKind(cfg *Config, key *kindKey) kind {
	rate := key.link.Rate
	t := kind{
		delay:     key.link.Delay + key.latency,
		rate:      rate,
		framing:   uint64(key.link.Framing.Bytes()),
		telemetry: key.from.INT,
		stage:     key.from.Stage,
		report:    key.from.Report,
	}
	t.recordBytes, t.records = uint64(cfg.INT.Bytes(1)-cfg.INT.Bytes(0)), uint8(cfg.INT.MaxHops())
	if t.report != nil && t.report.Hops > 0 {
		t.records = min(t.records, t.report.Hops)
	}
	t.setRate(rate)
	least := math.MaxInt
	for i := range cfg.Priorities {
		if w := key.from.Classes[i].Weight; w > 0 {
			least = min(least, w)
		}
	}
	for i := range cfg.Priorities {
		k, c, bit := &key.from.Classes[i], &t.class[i], uint8(1)<<i
		c.alpha = int64(math.Round(float64(k.Alpha * alphaOne)))
		if k.Weight == 0 {
			t.strict |= bit
		} else {
			// A packet may have grown by its records beyond MaxFrame.
			c.quantum = int32(int(cfg.MaxFrame+grown(cfg.INT)) * k.Weight / least)
		}
		if k.PFC.Lossless {
			t.lossless |= bit
			c.xoff, c.xon = int32(k.PFC.XOFF), int32(k.PFC.XON)
			if c.watchdog = k.PFC.Watchdog; c.watchdog > 0 {
				t.watched |= bit
				if k.PFC.WatchdogForwards {
					t.forwards |= bit
				}
			}
			if c.xon == 0 {
				c.xon = max(0, c.xoff-int32(2*cfg.MaxFrame))
			}
		}
		if e := k.EIN; e.Gradient > 0 {
			t.ein |= bit
			c.ein = newIncastRule(e, rate, k.ECN.AtRate)
			if t.report != nil {
				p := e.OfPort(t.report, key.link, k.ECN.AtRate, cfg.MaxFrame)
				t.incast = p.rule(t.report, rate)
			}
		}
		if e := k.ECN; e.Kmax > 0 {
			t.ecn |= bit
			c.kmin, c.kmax, c.pmax = scale(e.Kmin, rate, e.AtRate), scale(e.Kmax, rate, e.AtRate), e.Pmax
			t.random = t.random || c.kmin < c.kmax
		}
	}
	t.marks = t.ecn != 0 || t.ein != 0 || t.stage != nil
	return t
}

// looks reports whether a packet that leaves may be changed.
func (k *kind) looks(e *entry) bool { return k.marks || e.tel()&kindMask != 0 }

func (k *kind) setRate(rate units.Rate) {
	k.rate, k.psPerByte = rate, 0
	if ps := 8 * int64(units.Second) / int64(rate); ps*int64(rate) == 8*int64(units.Second) {
		k.psPerByte = uint64(ps)
	}
}

// scale returns n for a port of some rate, where it is meant for another.
func scale(n units.Bytes, rate, atRate units.Rate) int32 {
	if atRate > 0 {
		n = units.Bytes(math.Round(float64(float64(n)*float64(rate)) / float64(atRate)))
	}
	return int32(min(n, math.MaxInt32))
}

// admit takes a packet of a lossy priority into the buffer, or says that there is
// no room.
func (sw *switchState) admit(c *class, q *queue, size int64) bool {
	unused := sw.shared - sw.used
	if size > unused || int64(q.bytes)+size > unused*c.alpha/alphaOne {
		return false
	}
	sw.used += size
	sw.maxUsed = max(sw.maxUsed, sw.used)
	return true
}
