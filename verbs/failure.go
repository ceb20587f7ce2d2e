package verbs

import (
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

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

// FailedCall is what fails of a CallFailure.
type FailedCall uint8

// What may fail.
const (
	FailPostSend   FailedCall = iota // QP.PostSend
	FailPollCQ                       // CQ.Poll of a queue on which the queue pair completes
	FailCompletion                   // the completion of a request
)

// CallFailure is a call about a queue pair, or a completion of one, that fails once.
type CallFailure struct {
	Call FailedCall
	QP   uint32 // by its number
	// After is how many come first: of FailPostSend requests that are posted, of the others
	// completions of requests that succeed and are polled.
	After uint64
	// Errno is the cause of the error of a call that fails. PostSend takes the requests before the
	// one that fails; Poll takes nothing.
	Errno syscall.Errno
	// Status is what the completion has in place of success. The request was carried out; as after
	// every such completion, the queue pair goes to ERR, which flushes those that follow.
	Status ib.WCStatus
	// VendorErr is WC.VendorErr beside it; 0 is what a ConnectX gives, where that is known.
	VendorErr uint32
}

// Validate names the field that is out of range.
func (f *CallFailure) Validate() error {
	bad := func(format string, args ...any) error { return Errorf("fail_call", "", ErrInvalid, format, args...) }
	switch {
	case f.Call > FailCompletion:
		return bad("Call %d: choose FailPostSend, FailPollCQ or FailCompletion", f.Call)
	case f.Call == FailCompletion && (f.Status == ib.WCSuccess || !f.Status.Known()):
		return bad("Status %d: choose a status of an error", f.Status)
	case f.Call == FailCompletion && f.Errno != 0:
		return bad("Errno %d: a completion has a Status", int(f.Errno))
	case f.Call != FailCompletion && f.Errno == 0:
		return bad("Errno is 0: choose that of the call")
	case f.Call != FailCompletion && (f.Status != ib.WCSuccess || f.VendorErr != 0):
		return bad("Status %d, VendorErr %#x: a call has an Errno", f.Status, f.VendorErr)
	case f.VendorErr > 0xff:
		return bad("VendorErr %#x: it is a byte", f.VendorErr)
	}
	return nil
}

// CallFailer is implemented by Devices of which calls and completions can be made to fail: those of
// packages softroce and simverbs.
type CallFailer interface {
	// FailCall has a call, or a completion, fail once as f says. Several of a queue pair follow each other. It
	// fails with ErrInvalid if f is not valid, or the device has no such queue pair.
	FailCall(f CallFailure) error
}
