package doctor

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// test writes and reads between two queue pairs of the device and times it.
func (e *examination) test() {
	s := e.report.section("self-test, between two queue pairs of this device")
	e.options.Progress(0.2, "latency")
	cfg := e.config(perf.Test{Verb: perf.Write, Latency: true})
	cfg.Size, cfg.Iterations = 8, 1000
	r, err := perf.Pair(e.dev, e.dev, cfg)
	if err != nil {
		s.add(Fail, "latency", "%v", err)
		return // nothing else will do better
	}
	e.gid = r.GIDIndex
	l := r.Rows[0].Latency
	s.add(OK, "latency", "write of 8 bytes, one way: median %.2f us, 99%% %.2f us", float64(l.TypicalUs), float64(l.P99Us))

	e.options.Progress(0.35, "writing and reading")
	if err := verbs.Run(e.dev, e.copyBack); err != nil {
		s.add(Fail, "data", "%v", err)
		return
	}
	s.add(OK, "data", "%v written, read back and the same; a write with a wrong key was refused", units.Bytes(testBytes))

	e.options.Progress(0.4, "bandwidth")
	if e.gbps, err = e.bandwidth(e.dev); err != nil {
		s.add(Fail, "bandwidth", "%v", err)
		return
	}
	s.add(OK, "bandwidth", "%.2f Gbps of payload, not paced", e.gbps)
	if err := verbs.Run(e.dev, func() error { return e.hybrid(s) }); err != nil {
		s.add(Fail, "hybrid pacing", "%v", err)
	}
}

func (e *examination) config(t perf.Test) perf.Config {
	cfg := perf.DefaultConfig(t)
	cfg.Port, cfg.GID = e.options.Port, e.options.GID
	return cfg
}

func (e *examination) bandwidth(dev verbs.Device) (gbps float64, err error) {
	cfg := e.config(perf.Test{Verb: perf.Write})
	// Few outstanding, so that a slow device completes some in the time there is.
	cfg.Size, cfg.Iterations, cfg.Duration, cfg.NoPeak, cfg.TxDepth = 65536, 0, e.options.Duration, true, 16
	r, err := perf.Pair(dev, dev, cfg)
	if err != nil {
		return 0, err
	}
	gbps = float64(r.Rows[0].ThroughputGbps)
	if !(gbps > 0) { // unmeasured is no number
		return 0, fmt.Errorf("no write of 64KiB completed in the middle half of %v: give a longer --duration", cfg.Duration)
	}
	return gbps, nil
}

// paced sends at a fixed rate that the device can surely keep, and compares.
func (e *examination) paced(s *Section, dev verbs.Device) error {
	e.options.Progress(0.6, "pacing")
	rate := units.Rate(e.gbps / 10 * 1e9)
	shim, err := perf.Pacing{Rate: rate}.Wrap(dev)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	got, err := e.bandwidth(shim)
	if err := errors.Join(err, shim.Close()); err != nil {
		return err
	}
	off := got*1e9/float64(rate) - 1
	f := s.add(OK, "pacing", "asked for %v, sent %.4g Gbps (%+.2f %%)", rate, got, 100*off)
	if math.Abs(off) > 0.02 {
		f.Level = Warn
		f.mend("a busy host polls late: give the program that polls a processor of its own")
	}
	return nil
}

// steered lets an engine steer, and tells what round trips it goes by.
func (e *examination) steered(s *Section, dev verbs.Device) error {
	what := "the engine " + e.options.Engine
	e.options.Progress(0.8, what)
	wrapped, err := perf.Pacing{Engine: e.options.Engine}.Wrap(dev)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	shim := wrapped.(*paced.Shim)
	got, err := e.bandwidth(shim)
	stats := shim.Stats()
	closed := shim.Close()
	if errors.Is(err, verbs.ErrNotSupported) {
		s.add(Note, what, "%v", err)
		return closed
	}
	if err := errors.Join(err, closed); err != nil {
		return err
	}
	f := s.add(OK, what, "%.2f Gbps; %d round trips, %d of them timed by the device", got, stats.Samples, stats.NICTime)
	if stats.Clamped > stats.Samples/100 {
		f.Level = Warn
		f.Detail += fmt.Sprintf("; %d shorter than their own serialisation", stats.Clamped)
		f.mend("the port's line rate is wrong: set paced.Config.LineRate")
	}
	return nil
}
