package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/ib"
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

// limiter tries the device's own rate limit on a queue pair, for hybrid pacing.
func (e *examination) limiter(qp verbs.QP) {
	s := &e.report.Sections[len(e.report.Sections)-1]
	const what = "hardware rate limit"
	q, ok := qp.(verbs.RateLimitQP)
	if !ok {
		s.add(Note, what, "RC queue pairs of this provider have none: segments leave at line rate, a gap apart")
		return
	}
	port, err := e.dev.Port(e.options.Port)
	if err == nil {
		err = q.SetRateLimit(port.LinkRate / 2)
	}
	if err == nil {
		err = q.SetRateLimit(0)
	}
	if err != nil {
		s.add(Note, what, "RC queue pairs refuse it, and segments leave at line rate, a gap apart: %v", err)
		return
	}
	s.add(OK, what, "RC queue pairs take it: paced.Config.NICRate can smooth segments")
}

const testBytes = 1 << 20

// copyBack writes to a second region and reads from there to a third, and tries a
// key that nobody has.
func (e *examination) copyBack() (err error) {
	var free []func() error
	defer func() {
		for i := len(free) - 1; i >= 0; i-- {
			err = errors.Join(err, free[i]())
		}
	}()
	pd, err := e.dev.AllocPD()
	if err != nil {
		return err
	}
	free = append(free, pd.Dealloc)
	cq, err := e.dev.CreateCQ(verbs.CQInitAttr{CQE: 64})
	if err != nil {
		return err
	}
	free = append(free, cq.Destroy)
	var buf [3][]byte
	var mr [3]verbs.MR
	for i := range buf {
		buf[i] = make([]byte, testBytes)
		if mr[i], err = pd.RegMR(buf[i], ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead); err != nil {
			return err
		}
		free = append(free, mr[i].Dereg)
	}
	for i := range buf[0] {
		buf[0][i] = byte(i*7 + i>>8)
	}
	var qp [2]verbs.QP
	var end [2]verbs.Endpoint
	for i := range qp {
		if qp[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}); err != nil {
			return err
		}
		free = append(free, qp[i].Destroy)
		addr, err := e.dev.GID(e.options.Port, e.gid)
		if err != nil {
			return err
		}
		end[i] = verbs.Endpoint{GID: addr, QPN: qp[i].Num(), PSN: uint32(100 + i)}
	}
	p := verbs.DefaultRC()
	p.Port, p.SGIDIndex = e.options.Port, e.gid
	for i := range qp {
		if err := verbs.ConnectRC(qp[i], end[i], end[1-i], p); err != nil {
			return err
		}
	}
	do := func(op ib.WROpcode, local int, rkey uint32) error {
		_, err := qp[0].PostSend([]verbs.SendWR{{
			Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(mr[local], 0, testBytes)},
			RemoteAddr: mr[1].Addr(), RKey: rkey,
		}})
		if err != nil {
			return err
		}
		_, err = verbs.Drain(e.dev, cq, make([]verbs.WC, 1), 5*time.Second)
		return err
	}
	e.limiter(qp[0])
	if err := do(ib.WRRDMAWrite, 0, mr[1].RKey()); err != nil {
		return err
	}
	if err := do(ib.WRRDMARead, 2, mr[1].RKey()); err != nil {
		return err
	}
	if !bytes.Equal(buf[0], buf[2]) {
		return errors.New("what was read back is not what was written")
	}
	wrong := mr[1].RKey()
	for wrong == mr[0].RKey() || wrong == mr[1].RKey() || wrong == mr[2].RKey() {
		wrong += 0x01000100
	}
	if err := do(ib.WRRDMAWrite, 0, wrong); err == nil {
		return fmt.Errorf("a write with the key %#x, which no region has, succeeded", wrong)
	}
	return nil
}
