package bench

import (
	"io"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/nictrace"
)

// Options is how to run a scenario.
type Options struct {
	// Seed replaces the scenario's seed unless it is nil.
	Seed *uint64
	// Progress, unless it is nil, is called now and then, never concurrently,
	// with the share of the whole run that is done, from 0 to 1, and what is
	// running: "TIMELY (2 of 3)".
	Progress func(done float64, what string)
	// Flows, unless it is nil, is called with the record of each flow when it has
	// ended, and of those still under way at the end of a system's run; never
	// concurrently. The record is valid during the call. An error ends the run.
	Flows func(*results.FlowRecord) error
	// Series, unless it is nil, is called with every point of the time series as
	// the run comes to it; never concurrently. The row is valid during the call. An
	// error ends the run.
	Series func(*results.SeriesRow) error
	// Interrupted, unless it is nil, is called at every step of the measurement. Its
	// error ends the run, after the records of the flows under way.
	Interrupted func() error
	// Programs runs the programs of scenarios whose hosts have some; nil where that can't be.
	Programs RunHostPrograms
	// Packets, unless it is nil, gets the packets that staged NICs put on the wire, as a pcapng
	// file.
	Packets io.Writer
	// NICTrace, unless it is nil, writes what happens to requests inside NICs.
	NICTrace *nictrace.Trace
	// NICVCD, unless it is nil, writes what the stages of NICs do.
	NICVCD *nictrace.VCD
	// Workers, where it is above 0, run the networks that can be divided in windows:
	// those of reduced NICs whose links all have a delay, without failures, watchdogs,
	// circuits, programs and oracles. Others run as with 0. Results are the same to
	// the byte except Events and WallS, which depend on how they were computed.
	Workers int
	// NoSeries leaves series out of the result, and so holds none in memory.
	NoSeries bool
}
