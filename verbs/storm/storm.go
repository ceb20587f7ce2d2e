package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/softroce"
)

// Program is what each process runs. It returns nil when its work is done. After a
// crash it is called again, with Process.Incarnation one higher and nothing left of what
// the process had. A crash is a panic that passes through the program: deferred calls
// run, and all verbs that they use fail with verbs.ErrClosed. It must not wait for
// anything but simulated time: no goroutine, no time.Sleep.
type Program func(p *Process) error

// Config describes a run.
type Config struct {
	Provider  string `one:"soft sim"`
	Shim      string // name of the engine that the shim over each device has, "none" for a shim without one; no shim if empty
	Seed      uint64
	Processes int        `range:"[2,16]"`
	Span      units.Time `range:"(0,1s]"`     // faults come within
	Grace     units.Time `range:"(0,10000s]"` // in which all programs must end after Span
	// Faults are what goes wrong; nil for what Draw gives.
	Faults fault.Schedule
	// Program is what runs; nil for Peers.
	Program Program
	// Patience is how much real time a run may take before it counts as hanging; 0 for
	// no bound. What hangs is left behind: goroutines that wait or spin.
	Patience time.Duration
	// Sent is called for each packet that a soft device sends, from the Base Transport
	// Header to the ICRC; nil for nobody. id is its IPv4 identification. It must not keep p.
	Sent func(now units.Time, src, dst netip.AddrPort, trafficClass uint8, id uint16, p []byte)
}

// Default is a run of three processes over soft devices, with faults within 10 ms.
func Default() Config {
	return Config{
		Provider: "soft", Seed: 1, Processes: 3, Span: 10 * units.Millisecond, Grace: 200 * units.Second, Patience: time.Minute,
	}
}

// Draw returns the faults that the seed gives.
func (c *Config) Draw() fault.Schedule {
	return fault.Storm{Hosts: c.Processes, Span: c.Span, Packets: 4000, Forge: c.Provider == "soft"}.Draw(c.Seed)
}

var settings = field.Of[Config]("storm")

// Validate names the first field that is wrong.
func (c *Config) Validate() error {
	if err := settings.Check(c); err != nil {
		return err
	}
	if c.Shim != "" && c.Shim != "none" {
		if _, err := cc.Lookup(c.Shim); err != nil {
			return fmt.Errorf("storm: Shim: %w", err)
		}
	}
	if err := c.Faults.Check(c.Processes); err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	return nil
}

// Result is what a run came to.
type Result struct {
	Seed     uint64
	Failure  string         // empty if nothing failed
	Stack    string         // of the code that panicked, if it did
	Hangs    bool           // it was given up for want of Config.Patience
	Faults   fault.Schedule // what went wrong, as given or drawn
	End      units.Time     // when the last program ended
	Requests uint64         // that completed with success
	Failed   uint64         // that completed with an error
	Packets  uint64         // that were carried, or lost
}

// run is a run under way.
type run struct {
	cfg     Config
	engine  *des.Engine
	devices []verbs.Device
	procs   []*Process
	wire    fault.Wire
	result  Result
	links   map[uint64]*link // by nonce
	begins  begins
	once    sync.Once
	left    atomic.Bool // nobody waits for the run any more: programs end at their next call

	stamps    bool            // NICs say when a request's packets have left
	unordered bool            // what lies beyond a gap may be placed
	world     *softroce.World // nil over the NIC model
	hostile   hostile
	observer  *observer // of the wire; nil over the NIC model

	foreign, gone []hello          // by process: memory of another protection domain, and a key that is no more
	unreliables   map[[2]int]hello // by the process and whom it is for: ends of unreliable connections
	mailboxes     []uint32         // by process: the queue pair that takes datagrams
	panics        chan struct{}    // closed by the first panic: nothing of the run can be relied upon then
}

// errStop ends programs once the run has failed; errCrash ends one that crashes.
var (
	errStop  = errors.New("storm: the run has failed")
	errCrash = errors.New("storm: the process crashes")
)

// Run runs once. Its error is of c, or the cause by which ctx has ended, which leaves what is
// under way behind; that something failed is in the result.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.Faults == nil {
		c.Faults = c.Draw()
	}
	if c.Program == nil {
		c.Program = Peers
	}
	r := &run{cfg: c, engine: des.New(), panics: make(chan struct{}),
		unreliables: map[[2]int]hello{}, mailboxes: make([]uint32, c.Processes), foreign: make([]hello, c.Processes), gone: make([]hello, c.Processes),
	}
	r.result.Seed, r.result.Faults = c.Seed, c.Faults
	r.wire = c.Faults.Wire(c.Processes)
	if err := r.build(); err != nil {
		return nil, err
	}
	programs := make([]func() error, c.Processes)
	for i := range programs {
		p := r.process(i)
		r.procs = append(r.procs, p)
		programs[i] = p.live
	}
	done := make(chan error, 1)
	go func() { done <- verbs.Run(r.devices[0], programs...) }()
	var late <-chan time.Time
	if c.Patience > 0 {
		t := time.NewTimer(c.Patience)
		defer t.Stop()
		late = t.C
	}
	select {
	case err := <-done:
		if err != nil {
			r.failf("%v", err)
		}
		r.close()
	case <-r.panics:
	case <-ctx.Done():
		r.left.Store(true)
		return nil, context.Cause(ctx)
	case <-late:
		// The run has its own result, until its programs call something.
		r.left.Store(true)
		return &Result{Seed: c.Seed, Faults: c.Faults, Hangs: true, Failure: fmt.Sprintf("the run hangs: it has not ended after %v of real time", c.Patience)}, nil
	}
	return &r.result, nil
}

// failf says that the run has failed. Only the first failure counts.
func (r *run) failf(format string, args ...any) {
	if r.result.Failure == "" {
		r.result.Failure = fmt.Sprintf("at %v: ", r.engine.Now()) + fmt.Sprintf(format, args...)
	}
}

// panicked records a panic in the code under test.
func (r *run) panicked(v any) {
	r.failf("panic: %v", v)
	r.once.Do(func() {
		r.result.Stack = string(debug.Stack())
		close(r.panics)
	})
	select {} // what the panic has left locked stays so
}

// Carry implements fault.Wire: after Span nothing goes wrong.
func (r *run) Carry(now units.Time, from, to int) (f fault.Fate) {
	r.result.Packets++
	if f = r.wire.Carry(now, from, to); now > r.cfg.Span {
		return fault.Fate{}
	}
	return f
}

// close closes the devices, which have nothing left.
func (r *run) close() {
	if r.result.Failure == "" {
		r.observer.counted()
	}
	for i, d := range r.devices {
		if err := d.Close(); err != nil {
			r.failf("process %d: the device can't be closed when all is destroyed: %v", i, err)
		}
	}
}

// segmentBytes is the shim's segment: the least, so that plans are cut.
const segmentBytes = 4 * units.KiB

// shim lays the shim over a process's device, if the run has one.
func (r *run) shim(p *Process) (verbs.Device, error) {
	if r.cfg.Shim == "" {
		return p.ward, nil
	}
	c := paced.DefaultConfig()
	c.Segment = segmentBytes
	erratically := drawShim(&r.cfg, &c)
	switch {
	case r.cfg.Shim == "none":
	case erratically:
		c.Engine = func(cc.Env) (cc.Engine, error) {
			e := &erratic{r: p.engines}
			e.draw()
			return e, nil
		}
	default:
		c.Scheme = r.cfg.Shim
	}
	c.Observe = func(q *paced.QP, a *cc.Ack, control cc.Control) {
		if own := p.ward.paces[q.Num()]; own != nil {
			own.observed(a, control)
		}
	}
	p.ward.shim = &c
	return paced.Wrap(p.ward, c)
}

// over reports whether programs are to end.
func (r *run) over() bool { return r.result.Failure != "" || r.left.Load() }

// Shrink leaves faults out of a failed run for as long as it still fails, and returns
// what is left and its result. It makes at most tries runs. When ctx ends, what it returns
// is the least so far, with the cause as its error.
func Shrink(ctx context.Context, c Config, failed *Result, tries int) (*Result, error) {
	least := failed
	var wrong error
	failed.Faults.Shrink(tries, func(s fault.Schedule) bool {
		if wrong != nil {
			return false
		}
		c.Faults = s
		if s == nil {
			c.Faults = fault.Schedule{}
		}
		got, err := Run(ctx, c)
		if err != nil {
			wrong = err
			return false
		}
		if got.Failure == "" {
			return false
		}
		least = got
		return true
	})
	return least, wrong
}

// newRand is the stream of random numbers of one incarnation of a process. It does not
// depend on the faults, so that a shrunk run does what the whole one did for as long as
// it can.
func newRand(seed uint64, process, incarnation int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(process)<<32|uint64(incarnation)))
}
