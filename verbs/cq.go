package verbs

import (
	"context"
	"time"

	"github.com/sluice-rdma/sluice/ib"
)

// CQInitAttr are the attributes of a new completion queue.
type CQInitAttr struct {
	// CQE is the least number of completions it holds. A completion that finds
	// no room is an overrun: the CQ fails with an asynchronous event.
	CQE     int
	Channel CompChannel // nil for a CQ that is only polled
	// Timestamps asks for WC.Timestamp. CreateCQ fails with ErrNotSupported on a
	// device that has none (DeviceAttr.CoreClockHz is 0).
	Timestamps bool
}

// CQ is a completion queue.
type CQ interface {
	// Poll moves completions to wc, oldest first, and returns how many. It
	// never waits. On a simulated device an empty Poll takes a fixed time.
	Poll(wc []WC) (int, error)
	// ReqNotify arms the queue: its next completion (or next solicited or failed one)
	// puts an event on its channel. As with libibverbs, poll once more after arming,
	// for earlier completions.
	ReqNotify(solicitedOnly bool) error
	Cap() int
	// Close fails with ErrBusy while queue pairs use the CQ.
	Close() error
}

// CompChannel wakes a goroutine for completions (ibv_comp_channel).
type CompChannel interface {
	// Wait returns the next CQ whose event fired. It waits until ctx is done, whose
	// error it then returns, and up to timeout of the device's time, without end if
	// timeout is negative; it returns ErrTimeout when none fired. An event that is
	// there already is returned whatever ctx and timeout say.
	Wait(ctx context.Context, timeout time.Duration) (CQ, error)
	Close() error
}

// WCFlags qualify a completion (ibv_wc_flags).
type WCFlags uint32

// Completion flags. The values are libibverbs'.
const (
	WCGRH     WCFlags = 1 << 0
	WCWithImm WCFlags = 1 << 1
	WCWithInv WCFlags = 1 << 3

	// WCSolicited says of a receive that the sender asked for an event (SendSolicited).
	// It is Sluice's own, and devices of libibverbs do not set it.
	WCSolicited WCFlags = 1 << 31
	// WCIPv4 says of a datagram that it came by IPv4, whose header is in the last 20 bytes
	// of its GRH. It is Sluice's own as well.
	WCIPv4 WCFlags = 1 << 30
)

// WC is a work completion (ibv_wc).
type WC struct {
	WRID    uint64
	Status  ib.WCStatus
	Opcode  ib.WCOpcode // not valid unless Status is WCSuccess
	Flags   WCFlags
	ByteLen uint32 // received, or read
	Imm     uint32 // immediate data, or the key invalidated
	QPN     uint32
	SrcQP   uint32 // UD only

	// VendorErr is the provider's own code for a failure: a ConnectX's vendor_err_synd, 0 where
	// it is unknown. Devices sim: and soft: give what public logs of a ConnectX show.
	VendorErr uint32

	// Timestamp is the device's free-running counter when the operation
	// finished, in ticks of DeviceAttr.CoreClockHz, on a CQ made with
	// Timestamps. It wraps at DeviceAttr.ClockBits.
	Timestamp uint64
}

// Drain polls cq until wc is full, a completion has failed, or timeout of the
// device's time has passed without one; dev is the device of cq. It returns
// how many completions it got; ErrTimeout if that is not len(wc).
func Drain(dev Device, cq CQ, wc []WC, timeout time.Duration) (int, error) {
	n, last := 0, dev.Now()
	for n < len(wc) {
		got, err := cq.Poll(wc[n:])
		if err != nil {
			return n, err
		}
		for _, c := range wc[n : n+got] {
			if c.Status != ib.WCSuccess {
				return n + got, &OpError{Op: "poll_cq", Object: dev.Name(), Err: &StatusError{c}}
			}
		}
		n += got
		switch now := dev.Now(); {
		case got > 0:
			last = now
		case now-last >= timeout:
			return n, &OpError{Op: "poll_cq", Object: dev.Name(), Err: ErrTimeout}
		}
	}
	return n, nil
}

// StatusError is the error of a completion that did not succeed. errors.Is finds its
// status: errors.Is(err, ib.WCRetryExcErr).
type StatusError struct{ WC WC }

func (e *StatusError) Error() string { return e.WC.Status.Error() }

// Unwrap returns the completion's status.
func (e *StatusError) Unwrap() error { return e.WC.Status }
