package verbs

import "github.com/sluice-rdma/sluice/units"

// Failer is implemented by Devices that can be made to fail, to test what is built on them: those
// of packages softroce and simverbs. What programs see of each failure is in docs/failures.md.
type Failer interface {
	// SetPort has the port go down or come up, and says so by an asynchronous event. Queue pairs
	// stay as they are.
	SetPort(up bool)
	// FailQP has the queue pair of a number go to ERR with ib.EventQPFatal, which flushes its
	// requests; one in RESET or ERR stays as it is. It reports whether there is such a one.
	FailQP(num uint32) bool
	// Die has the device fail for good, as an mlx5 in an internal error: its queue pairs go to ERR,
	// ib.EventDeviceFatal is raised, and what would make something new fails with ErrNoDevice.
	Die()
}

// LinkFailure is what a link does to packets while it fails. The zero value is a whole link.
type LinkFailure struct {
	// Silent loses all packets while the port stays up. With OneWay those that the port receives
	// pass.
	Silent, OneWay bool

	Rate  units.Rate // of what the port sends; 0 leaves it
	Delay units.Time // of what the port sends, up to 10 s; 0 leaves it
	Loss  float64    // probability, from 0 to 1, that a packet that the port sends is lost; 0 leaves it
}

// LinkFailer is implemented by Devices whose link can be made to fail while their port stays up:
// those of package softroce. In a simulated network links fail themselves.
type LinkFailer interface {
	// FailLink has the link at the port fail as f says, in place of what was said before. Its error
	// names the field that is out of range.
	FailLink(f LinkFailure) error
}
