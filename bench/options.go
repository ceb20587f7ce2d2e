package bench

import (
	"io"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/units"
)

// Options configure the run of a scenario. Progress, Flows and Series are never called
// concurrently, neither with themselves nor with each other.
type Options struct {
	// Seed replaces the scenario's seed unless it is nil.
	Seed *uint64
	// Progress, unless it is nil, is called now and then with the share of the whole
	// run that is done, from 0 to 1, and what is running: "TIMELY (2 of 3)".
	Progress func(done float64, what string)
	// Flows, unless it is nil, is called with the record of each flow when it has
	// ended, and of those still under way at the end of a system's run. The record is
	// valid during the call. An error ends the run.
	Flows func(*results.FlowRecord) error
	// Series, unless it is nil, is called with every point of the time series as
	// the run comes to it. The row is valid during the call. An error ends the run.
	Series func(*results.SeriesRow) error
	// Interrupted, unless it is nil, is called at every step of the measurement, with
	// several workers also concurrently. Its error ends the run, after the records of the
	// flows under way.
	Interrupted func() error
	// Programs runs the programs of scenarios whose hosts have some; nil where that can't be.
	Programs RunHostPrograms
	// Packets, unless it is nil, gets the packets that staged NICs put on the wire, as a pcapng
	// file.
	Packets io.Writer
	// NICTrace, unless it is nil, writes what happens to requests inside NICs.
	NICTrace *NICTrace
	// NICVCD, unless it is nil, writes what the stages of NICs do.
	NICVCD *NICVCD
	// Workers is the number of cores the run may use. Systems run beside each other as far as
	// that and Memory go; their flows, series and results come in their order. Where there
	// are fewer systems than workers, each network that can be divided runs in windows on
	// its share of them, on one otherwise (fabric.Network.Divide); results say which ones
	// were not, and why. Systems whose packets or NICs are recorded, or that run programs of hosts,
	// run one after the other. With 0 nothing is divided, and nothing runs beside anything.
	//
	// From 1 on, results are the same to the byte whatever the number, but for WallS.
	// With 0 they differ in Events and in Undivided, too.
	Workers int
	// Memory bounds the memory of the systems that run at once; 0 is no limit. One always
	// runs: scenario.LoadWithin refuses what does not fit.
	Memory units.Bytes
	// smallWindows divides also where windows have too little in them to be worth it.
	smallWindows bool
	// NoSeries leaves series out of the result, and so holds none in memory.
	NoSeries bool
}
