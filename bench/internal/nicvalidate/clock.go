package nicvalidate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/markdown"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// ClockCase is a NIC whose clock is calibrated.
type ClockCase struct {
	Preset string
	PPB    int64 // that its counter is off
	// Loaded: other queue pairs write in both directions meanwhile, so that readings wait
	// for the link.
	Loaded bool
}

// ClockCases returns those of the page: both counters, with the typical and the largest
// difference of row C4.
func ClockCases() (all []ClockCase) {
	for _, preset := range []string{"cx5", "cx6dx"} {
		for _, ppb := range []int64{7_000, 30_000} {
			for _, loaded := range []bool{false, true} {
				all = append(all, ClockCase{preset, ppb, loaded})
			}
		}
	}
	return all
}

// RoundTrips are round trips by the NIC's timestamps, mapped to the host's clock,
// compared with those by the simulation's.
type RoundTrips struct {
	Case     ClockCase
	Hz       float64      // of the counter
	RTTs     []units.Time // that were true, in the order in which they were taken
	Errors   []units.Time // of the measured ones, without their sign
	Bounds   []units.Time // that calibration stated with them
	Brackets []units.Time // of the readings of the counter
	Refused  int          // round trips whose mapping was not to be trusted, after the first samples
	Wraps    int          // of the counter
}

// Outside counts the round trips whose error was larger than the bound.
func (r *RoundTrips) Outside() (n int) {
	for i, e := range r.Errors {
		if e > r.Bounds[i] {
			n++
		}
	}
	return n
}

const (
	clockRun   = 100 * time.Millisecond
	clockEvery = 100 * time.Microsecond // from one round trip to the next
)

// slot50 joins two machines whose PCIe 50 Gbps both ways fill to nine tenths.
var slot50 = fabric.Link{Rate: 50 * units.Gbps, Delay: cable}

// run takes the round trips of a case. The counter wraps in the middle.
func (c ClockCase) run() (*RoundTrips, error) {
	cfg, err := preset(c.Preset)
	if err != nil {
		return nil, err
	}
	cfg.PCIe = slower(cfg.PCIe)
	cfg.Counter.PPB = c.PPB
	cfg.Counter.Phase = untilWrap(cfg.Counter) - units.FromDuration(clockRun/2)
	r, err := roundTrips(cfg, c.Loaded, clockRun)
	if err != nil {
		return nil, err
	}
	r.Case = c
	return r, nil
}

// roundTrips has a host calibrate its NIC's clock as the shim does, with readings of the
// counter when calibration advises them. The host repeatedly writes 64 bytes to another.
// Round trips are from the host's clock before the post to the completion's timestamp.
func roundTrips(cfg nicmodel.Config, loaded bool, run time.Duration) (*RoundTrips, error) {
	hosts, err := newHosts(2, true, slot50, cfg)
	if err != nil {
		return nil, err
	}
	a, b := hosts[0], hosts[1]
	over := false
	if loaded {
		for i, h := range hosts {
			if err := load(h, hosts[1-i], &over); err != nil {
				return nil, err
			}
		}
	}
	// Round trips have a completion queue of their own.
	from := *a
	if from.cq, err = a.dev.CreateCQ(verbs.CQInitAttr{CQE: 16, Timestamps: true}); err != nil {
		return nil, err
	}
	qp, _, err := connect(&from, b, 16, 0, 64, 4096)
	if err != nil {
		return nil, err
	}
	attr := a.dev.Attr()
	cal, err := calibration.New(calibration.DefaultConfig(attr.ClockBits, attr.CoreClockHz))
	if err != nil {
		return nil, err
	}
	r := &RoundTrips{Hz: attr.CoreClockHz}
	// The NIC stamps a completion when its transport has had the acknowledgement.
	var acknowledged units.Time
	a.dev.NIC().OnSpan(func(s *nicmodel.Span) {
		if s.Place == nicmodel.AtReceive && s.Response && s.QPN == qp.Num() && s.Host == a.dev.NIC().Host() {
			acknowledged = s.End
		}
	})
	err = verbs.Run(a.dev, func() error {
		defer func() { over = true }()
		var last uint64
		for samples := 0; a.dev.Now() < run; {
			for a.dev.NowPrecise() >= cal.NextSample() {
				x := calibration.Sample{HostBefore: a.dev.NowPrecise()}
				if x.NIC, err = a.dev.ReadClock(); err != nil {
					return err
				}
				x.HostAfter = a.dev.NowPrecise()
				if v := cal.Add(x); v != calibration.Accepted {
					return fmt.Errorf("sample %d of the counter: %v", samples, v)
				}
				samples++
				r.Brackets = append(r.Brackets, x.HostAfter-x.HostBefore)
			}
			posted := a.dev.NowPrecise()
			stamp, err := writeOnce(&from, qp, b)
			if err != nil {
				return err
			}
			if stamp < last {
				r.Wraps++
			}
			last = stamp
			if m, ok := cal.ToHost(stamp); ok {
				off := m.Host - acknowledged
				r.RTTs = append(r.RTTs, acknowledged-posted)
				r.Errors = append(r.Errors, max(off, -off))
				r.Bounds = append(r.Bounds, m.Bound)
			} else if samples >= trustedAfter {
				r.Refused++
			}
			verbs.Sleep(a.dev, clockEvery)
		}
		return nil
	})
	return r, err
}

// trustedAfter is the number of samples that calibration needs before it maps.
var trustedAfter = calibration.DefaultConfig(64, 1e9).MinSamples

// untilWrap returns the time from a counter's wrap to the next.
func untilWrap(c nicmodel.Counter) units.Time {
	hz := float64(c.Hz) * (1 + float64(c.PPB)/1e9)
	return units.FromSeconds(float64(uint64(1)<<c.Bits) / hz)
}

// writeOnce writes 64 bytes and returns the timestamp of the completion.
func writeOnce(from *host, qp verbs.QP, to *host) (uint64, error) {
	const n = 64
	_, err := qp.PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: from.buf[:n],
		RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
	}})
	if err != nil {
		return 0, err
	}
	var wcs [1]verbs.WC
	for range 100_000 {
		got, err := from.cq.Poll(wcs[:])
		switch {
		case err != nil:
			return 0, err
		case got == 0:
			verbs.Sleep(from.dev, 100*time.Nanosecond)
		case wcs[0].Status != ib.WCSuccess:
			return 0, &verbs.StatusError{WC: wcs[0]}
		default:
			return wcs[0].Timestamp, nil
		}
	}
	return 0, verbs.ErrTimeout
}

// load keeps one machine writing to another until it is over: messages of 64 KiB, four
// under way.
func load(from, to *host, over *bool) error {
	const (
		size  = 64 << 10
		depth = 4
	)
	qp, _, err := connect(from, to, depth, 0, 0, 4096)
	if err != nil {
		return err
	}
	wrs := []verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(from.mr, size, size)},
		RemoteAddr: to.mr.Addr() + size, RKey: to.mr.RKey(),
	}}
	wcs := make([]verbs.WC, depth)
	from.polls = func(units.Time) {
		n, err := from.cq.Poll(wcs)
		for range n {
			if err == nil && !*over {
				_, err = qp.PostSend(wrs)
			}
		}
		if err != nil {
			panic(err) // of the program: there is room, and nothing is lost
		}
	}
	for range depth {
		if _, err := qp.PostSend(wrs); err != nil {
			return err
		}
	}
	return nil
}

// clockMarkdown writes the page's section.
func clockMarkdown(b *strings.Builder, all []*RoundTrips) {
	fmt.Fprintf(b, `
### The clock

Round trips by the NIC's timestamps, [calibrated](calibration.md) to the host's clock, against the simulation's: two machines
at 50 Gbps, on PCIe 3.0 x8. A host reads its NIC's counter over PCIe when calibration advises it, and in between
writes 64 bytes every %v us for %v ms, in the middle of which the counter wraps. With load, both machines write 64 KiB at a time as fast as they
can, so that readings wait for what is on PCIe, longer one way than the other. Nanoseconds; error and bound: median / 99th percentile / most.

`, clockEvery.Microseconds(), clockRun.Milliseconds())
	t := markdown.NewTable(b, "counter", "off by", "PCIe", "round trips: median", "readings' brackets: least, most", "error", "bound", "outside")
	for _, r := range all {
		pcie := "idle"
		if r.Case.Loaded {
			pcie = "loaded"
		}
		rtts := slices.Sorted(slices.Values(r.RTTs))
		brackets := slices.Sorted(slices.Values(r.Brackets))

		t.Row(fmt.Sprintf("%v MHz (`%s`)", r.Hz/1e6, r.Case.Preset), fmt.Sprintf("%d ppm", r.Case.PPB/1000), pcie, fmt.Sprintf("%.0f", percentile(rtts, 50).Nanoseconds()),
			fmt.Sprintf("%.0f, %.0f", brackets[0].Nanoseconds(), brackets[len(brackets)-1].Nanoseconds()),
			threeOf(r.Errors), threeOf(r.Bounds), fmt.Sprintf("%d of %d", r.Outside(), len(r.Errors)))
	}
}

// threeOf returns median, 99th percentile and maximum.
func threeOf(of []units.Time) string {
	sorted := slices.Sorted(slices.Values(of))
	return fmt.Sprintf("%.0f / %.0f / %.0f", percentile(sorted, 50).Nanoseconds(), percentile(sorted, 99).Nanoseconds(), sorted[len(sorted)-1].Nanoseconds())
}

// percentile rounds its rank down, by which the page's figures are; package quantile rounds to
// the nearest.
func percentile(sorted []units.Time, p int) units.Time { return sorted[(len(sorted)-1)*p/100] }
