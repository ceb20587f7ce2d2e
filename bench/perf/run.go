package perf

import (
	"errors"
	"io"
	"syscall"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// Run runs one end of a test, the client if conn is one. It closes conn, whatever
// happens, so that the other end learns of a failure. On a simulated device it
// must be called within verbs.Run, and conn must let simulated time pass: use
// Pair.
//
// The server of a test that only its client measures returns the client's report.
// For read_lat, atomic_lat and write_lat, each end returns what it measured itself;
// the server of the first two measures nothing.
func Run(dev verbs.Device, conn *exchange.Conn, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	var result *Result
	err := whileThere(dev, conn, func() (err error) {
		result, err = newEnd(dev, conn, cfg).runAll()
		return err
	})
	return result, err
}

// runAll runs the test and gives everything back.
func (e *end) runAll() (*Result, error) {
	err := e.run()
	// The exchange is over or has failed; closing it twice says nothing new.
	_ = e.conn.Close()
	return e.result, errors.Join(err, e.free())
}

// Pair runs both ends of a test in this process and returns what the client
// measured. Both devices must be of one provider; simulated ones of one network.
func Pair(client, server verbs.Device, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a, b, err := connection(client, server)
	if err != nil {
		return nil, err
	}
	silent := cfg
	silent.Started, silent.Row, silent.Progress, silent.Interval, silent.OnInterval = nil, nil, nil, 0, nil
	started := cfg.Started
	both := func(r *Result) { r.Role, r.Peer = "both", server.Name() }
	cfg.Started = func(r *Result) {
		both(r)
		if started != nil {
			started(r)
		}
	}
	var result *Result
	err = bothEnds(client,
		func() (err error) {
			result, err = Run(client, exchange.New(a, true, 0), cfg)
			return err
		},
		func() error {
			_, err := Run(server, exchange.New(b, false, 0), silent)
			return err
		},
	)
	return result, err
}

// bothEnds runs two ends. Where one fails, the other sees its connection close:
// that is no news.
func bothEnds(dev verbs.Device, client, server func() error) error {
	var failed [2]error
	err := verbs.Run(dev,
		func() error { failed[0] = client(); return failed[0] },
		func() error { failed[1] = server(); return failed[1] },
	)
	for i, e := range failed {
		if e != nil && failed[1-i] != nil && !closed(e) && closed(failed[1-i]) {
			return e
		}
	}
	return err
}

// closed reports whether an error says that the other end closed the connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// run is the whole of a test, with its messages in the order of perftest's
// programs.
func (e *end) run() error {
	if err := e.prepare(); err != nil {
		return err
	}
	if err := e.allocate(); err != nil {
		return err
	}
	if err := e.connect(); err != nil {
		return err
	}
	e.describe()
	e.conn.SetTimeout(e.cfg.Patience)
	switch t := e.cfg.Test; {
	case t == Test{Write, true}:
		return errors.Join(e.each(e.writes), e.conn.Leave())
	case t.oneSided() && !e.client && !e.cfg.Bidirectional:
		return e.serve()
	case t.Latency && t.Verb == Send:
		return e.finish(e.each(e.sendLatency))
	case t.Latency:
		return e.finish(e.each(e.fetches))
	case t.Verb == Send:
		return e.finish(e.each(e.sendBandwidth))
	case e.cfg.Bidirectional:
		return e.finish(e.each(e.bothWays))
	}
	if err := e.each(e.send); err != nil {
		return err
	}
	// The next messages report to the server that the test is over, and its result.
	if err := e.barrier(); err != nil {
		return err
	}
	last := e.result.Rows[len(e.result.Rows)-1]
	if _, err := e.conn.SwapReports(e.report(last, last.Bandwidth)); err != nil {
		return err
	}
	return e.conn.Finish(e.local[0])
}

// finish ends the exchange of a successful test.
func (e *end) finish(err error) error {
	if err != nil {
		return err
	}
	if err := e.meet(); err != nil {
		return err
	}
	return e.conn.Finish(e.local[0])
}

// each runs a test with each size.
func (e *end) each(run func(size int) (*Row, error)) error {
	for _, size := range e.sizes {
		e.renewal.clear()
		row, err := run(size)
		if err == nil && (!e.cfg.Test.oneSided() || e.cfg.Bidirectional) {
			err = e.meet() // the next row's counts are others
		}
		if err != nil {
			return err
		}
		e.add(row)
	}
	return nil
}

func (e *end) add(row *Row) {
	e.result.Rows = append(e.result.Rows, row)
	if e.cfg.Row != nil {
		e.cfg.Row(row)
	}
}

// serve is the server of a test in which its memory does all: it waits for the
// client to finish and returns what the client measured.
func (e *end) serve() error {
	if e.cfg.Test.Latency {
		return e.finish(nil)
	}
	if err := e.barrier(); err != nil {
		return err
	}
	r, err := e.conn.SwapReports(exchange.Report{})
	if err != nil {
		return err
	}
	e.add(&Row{Bytes: int(r.Size), Iterations: r.Iterations, Bandwidth: reported(r), Reconnects: e.books.renewed})
	return e.conn.Finish(e.local[0])
}

// bothWays runs a bandwidth test of one-sided operations in both directions.
func (e *end) bothWays(size int) (*Row, error) {
	if err := e.barrier(); err != nil {
		return nil, err
	}
	row, err := e.send(size)
	if err != nil {
		return nil, err
	}
	if e.cfg.All && e.cfg.Test.Verb != Atomic {
		if err := e.barrier(); err != nil {
			return nil, err
		}
	}
	return row, e.sum(row)
}

// sum adds to a row what the other end measured.
func (e *end) sum(row *Row) error {
	if err := e.meet(); err != nil {
		return err
	}
	r, err := e.conn.SwapReports(e.report(row, row.Bandwidth))
	if err != nil {
		return err
	}
	row.Local, row.Remote = row.Bandwidth, reported(r)
	row.Bandwidth = row.Local.plus(row.Remote)
	return nil
}

// sendBandwidth runs one size of send_bw.
func (e *end) sendBandwidth(size int) (*Row, error) {
	var r *receiver
	var err error
	if e.receives() {
		if r, err = e.newReceiver(size); err != nil {
			return nil, err
		}
	}
	if err = e.barrier(); err != nil {
		return nil, err
	}
	var row *Row
	switch {
	case e.cfg.Bidirectional:
		row, err = e.exchangeSends(r)
	case e.client:
		row, err = e.send(size)
	default:
		row, err = e.receive(r)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !e.cfg.Bidirectional:
	case e.cfg.Duration > 0:
		// perftest swaps no reports here: each end counts both directions.
		row.Local, row.Remote = row.Bandwidth, r.meter.bandwidth(size)
		row.Bandwidth = row.Local.plus(row.Remote)
	default:
		if err := e.sum(row); err != nil {
			return nil, err
		}
	}
	if e.cfg.All {
		err = e.barrier()
	}
	return row, err
}

// sendLatency runs one size of send_lat.
func (e *end) sendLatency(size int) (*Row, error) {
	r, err := e.newReceiver(size)
	if err != nil {
		return nil, err
	}
	if err := e.barrier(); err != nil {
		return nil, err
	}
	return e.sends(r)
}

// describe begins the result.
func (e *end) describe() {
	c := &e.cfg
	e.result = &Result{
		Test: c.Test.String(), Role: "server", Device: e.dev.Name(), Peer: e.remote[0].GID.String(), Service: c.Service.String(),
		QPs: c.QPs, MTU: int(e.greeting.MTU), GIDIndex: e.from.Index, GID: e.from.GID.String(),
		TxDepth: c.TxDepth, PostList: c.PostList, InlineBytes: e.inline, Bidirectional: c.Bidirectional, Rows: []*Row{},
	}
	if e.client {
		e.result.Role = "client"
	}
	if e.receives() {
		e.result.RxDepth = c.RxDepth
	}
	if c.Test.Verb == Read || c.Test.Verb == Atomic {
		e.result.OutReads = e.outReads
	}
	if c.Started != nil {
		c.Started(e.result)
	}
}

// A MiB/s is 8 * 2^20 bit/s.
const gbitPerMiB = 8 * (1 << 20) / 1e9

// report is what this end sends to the other.
func (e *end) report(row *Row, b *Bandwidth) exchange.Report {
	unit := 1.0
	if e.cfg.MiBytes {
		unit = 1 / gbitPerMiB
	}
	value := func(f stats.Float) float64 {
		if !f.Measured() {
			return 0
		}
		return float64(f)
	}
	return exchange.Report{
		Size: uint64(row.Bytes), Iterations: row.Iterations,
		Peak: value(b.PeakGbps) * unit, Average: value(b.ThroughputGbps) * unit, MessageRate: value(b.MessageRateMpps),
	}
}

// reported is what the other end measured. The unit of its bandwidth is not
// known; its message rate has one, and the size, and peak and average have the
// same.
func reported(r exchange.Report) *Bandwidth {
	b := &Bandwidth{stats.Unmeasured, stats.Unmeasured, stats.Unmeasured}
	if r.MessageRate > 0 && r.MessageRate < 1e6 && r.Size <= maxSize {
		b.set(r.MessageRate, int(r.Size))
		if r.Average > 0 && r.Peak > 0 && stats.Float(r.Peak/r.Average).Measured() {
			b.PeakGbps = b.ThroughputGbps * stats.Float(r.Peak/r.Average)
		}
	}
	return b
}
