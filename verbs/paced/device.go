package paced

import (
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Shim is a verbs.Device over that of a provider, whose RC queue pairs are
// segmented, paced and steered. It passes everything else on: memory regions
// and their keys are the provider's own, so a peer needs no shim. It is also a
// verbs.Runner, a verbs.ClockReader and a verbs.PreciseClock, as far as the
// provider's device is.
type Shim struct {
	dev verbs.Device
	cfg Config
}

// Wrap returns a Shim over dev. It fails if c is out of range or its engine
// can't be made. The provider's device is to be used through the Shim alone
// from then on, and is closed by the Shim's Close.
func Wrap(dev verbs.Device, c Config) (*Shim, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Shim{dev: dev, cfg: c}, nil
}

// Unwrap returns the provider's device.
func (s *Shim) Unwrap() verbs.Device { return s.dev }

// Clock reads the host clock by which the shim works: the device's
// verbs.PreciseClock where it has one, else its Now, counted from Wrap. Times
// that go into and come out of a Shim are on this clock.
func (s *Shim) Clock() units.Time { return units.FromDuration(s.dev.Now()) }

// Progress takes what the provider has completed and sends all that is due at
// now, a reading of Clock. Completions of requests are then ready in their CQs.
// It returns a failure to poll, after which the queue pairs concerned are stuck.
func (s *Shim) Progress(now units.Time) error { return nil }

// Deadline is when Progress has something to do though nothing completes: a
// segment comes due, or a calibration sample. It is units.Never if nothing is
// waiting, and lies in the future right after Progress.
func (s *Shim) Deadline() units.Time { return units.Never }

// Stats returns the counters so far.
func (s *Shim) Stats() Stats { return Stats{} }

// Stats counts what a Shim did.
type Stats struct {
	Messages     uint64      // requests of the application that completed, however
	Failed       uint64      // those that did not succeed
	Segments     uint64      // posted to the provider
	SegmentBytes units.Bytes // their payload
	Posts        uint64      // PostSend calls to the provider

	Samples  uint64 // RTT samples given to engines
	NICTime  uint64 // completion times taken from the NIC's timestamp
	PollTime uint64 // taken from the time of polling: no timestamp, or no trusted calibration
	// Clamped samples were shorter than their own serialisation: a wrong line
	// rate, or a calibration error. They count as an RTT of zero.
	Clamped uint64
	CNPs    uint64 // congestion notifications passed to engines

	ProviderFull   uint64 // posts that the provider refused for want of room, and that were repeated
	Stray          uint64 // provider completions of no known segment
	NICRateRefused uint64 // queue pairs whose NIC did not take Config.NICRate
	ClockErrors    uint64 // failed readings of the NIC's clock
}

// QP is a paced RC queue pair. It implements verbs.QP.
type QP struct {
	verbs.QP
}

// PostSendAt is PostSend at the time now, a reading of Shim.Clock.
func (q *QP) PostSendAt(now units.Time, wrs []verbs.SendWR) (int, error) { return q.QP.PostSend(wrs) }

// Unwrap returns the provider's queue pair.
func (q *QP) Unwrap() verbs.QP { return q.QP }

// Control returns what the engine allows at present.
func (q *QP) Control() cc.Control { return cc.Control{} }

// Outstanding returns the payload bytes that are with the NIC.
func (q *QP) Outstanding() units.Bytes { return 0 }

// Name implements verbs.Device.
func (s *Shim) Name() string { return s.dev.Name() }

// Attr implements verbs.Device.
func (s *Shim) Attr() verbs.DeviceAttr { return s.dev.Attr() }

// Port implements verbs.Device.
func (s *Shim) Port(num int) (verbs.PortAttr, error) { return s.dev.Port(num) }

// GID implements verbs.Device.
func (s *Shim) GID(port, index int) (netip.Addr, error) { return s.dev.GID(port, index) }

// AllocPD implements verbs.Device. The PD's CreateQP returns a *QP.
func (s *Shim) AllocPD() (verbs.PD, error) { return s.dev.AllocPD() }

// CreateCQ implements verbs.Device.
func (s *Shim) CreateCQ(a verbs.CQInitAttr) (verbs.CQ, error) { return s.dev.CreateCQ(a) }

// CreateCompChannel implements verbs.Device.
func (s *Shim) CreateCompChannel() (verbs.CompChannel, error) { return s.dev.CreateCompChannel() }

// AsyncEvent implements verbs.Device.
func (s *Shim) AsyncEvent(timeout time.Duration) (verbs.AsyncEvent, error) {
	return s.dev.AsyncEvent(timeout)
}

// Now implements verbs.Device.
func (s *Shim) Now() time.Duration { return s.dev.Now() }

// Close implements verbs.Device.
func (s *Shim) Close() error { return s.dev.Close() }

// Run implements verbs.Runner.
func (s *Shim) Run(applications ...func() error) error { return verbs.Run(s.dev, applications...) }

// Blocking implements verbs.Runner.
func (s *Shim) Blocking(f func()) { verbs.Blocking(s.dev, f) }

// Sleep implements verbs.Runner.
func (s *Shim) Sleep(d time.Duration) { verbs.Sleep(s.dev, d) }
