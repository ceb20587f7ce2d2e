package rc

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

const maxDepth = 1 << 16

// QP is one end of a connection, reliable or unreliable, or an end of datagrams: a
// requester and a responder. It is not safe for concurrent use.
//
// PSNs are kept as 64-bit numbers that do not wrap around; their low 24 bits
// are what is on the wire. A PSN that arrives is taken as the nearest such
// number to the one expected (IBA 9.7.2).
//
// What most packets touch lies together: a model has more queue pairs than its caches hold.
type QP struct {
	state    ib.QPState
	service  ib.Opcode // ServiceRC, ServiceUC or ServiceUD: what its opcodes begin with
	reorders bool      // cfg.Reorder is above 0
	credits  bool      // cfg.Credits
	mtu      int64

	requester
	sender SendConfig
	repeats
	responder
	cfg Config

	ctr Counters
	adaptive
}

// New returns a queue pair in state RTR, which receives and responds. All
// memory that it will need is allocated here.
func New(cfg Config) (*QP, error) {
	if cfg.Type == 0 {
		cfg.Type = ib.RC
	}
	switch {
	case cfg.Type != ib.RC && cfg.Type != ib.UC && cfg.Type != ib.UD:
		return nil, fmt.Errorf("rc: Type %v, expected RC, UC or UD", cfg.Type)
	case cfg.Type != ib.RC && (cfg.MaxDestRdAtomic != 0 || cfg.MinRNRTimer != 0 || cfg.Credits):
		return nil, fmt.Errorf("rc: MaxDestRdAtomic, MinRNRTimer or Credits with %v: nothing is answered there, leave them zero", cfg.Type)
	case cfg.MTU < 64 || cfg.MTU > 65535:
		return nil, fmt.Errorf("rc: MTU %d, expected 256, 512, 1024, 2048 or 4096 (a model may use 64 to 65535)", cfg.MTU)
	case cfg.SendDepth < 1 || cfg.SendDepth > maxDepth:
		return nil, fmt.Errorf("rc: SendDepth %d, expected 1 to %d", cfg.SendDepth, maxDepth)
	case cfg.RemotePSN > maxPSN:
		return nil, fmt.Errorf("rc: RemotePSN %#x, expected 24 bits", uint32(cfg.RemotePSN))
	case cfg.MaxDestRdAtomic < 0 || cfg.MaxDestRdAtomic > 255:
		return nil, fmt.Errorf("rc: MaxDestRdAtomic %d, expected 0 to 255", cfg.MaxDestRdAtomic)
	case cfg.MinRNRTimer > 31:
		return nil, fmt.Errorf("rc: MinRNRTimer %d, expected 0 to 31", cfg.MinRNRTimer)
	case cfg.SharedRecv && cfg.Recv == nil:
		return nil, errors.New("rc: SharedRecv without Recv: give the shared receive queue")
	case cfg.SharedRecv && cfg.Credits:
		return nil, errors.New("rc: Credits with SharedRecv: a shared receive queue has no credits to promise (IBA 9.7.7.2)")
	}
	if n := cfg.Reorder; n != 0 {
		switch {
		case n < 64 || n > 1<<16 || n&(n-1) != 0:
			return nil, fmt.Errorf("rc: Reorder %d, expected 0 or a power of two from 64 to 65536", n)
		case cfg.Type != ib.RC:
			return nil, fmt.Errorf("rc: Reorder with %v: nothing is sent again there, leave it 0", cfg.Type)
		case cfg.Credits:
			return nil, errors.New("rc: Reorder with Credits: a NAK has a PSN where the credits' MSN is, choose one")
		}
	}
	q := &QP{state: ib.RTR, cfg: cfg, mtu: int64(cfg.MTU), reorders: cfg.Reorder > 0, credits: cfg.Credits}
	if n := cfg.Reorder; n > 0 {
		q.marked, q.ahead = newBitmap(n), &ahead{got: newBitmap(n), ends: newBitmap(n)}
	}
	q.wqes = make([]wqe, 1<<bits.Len(uint(cfg.SendDepth-1)))
	q.wqeMask = uint32(len(q.wqes) - 1)
	switch cfg.Type {
	case ib.UC:
		q.service = ib.ServiceUC
	case ib.UD:
		q.service = ib.ServiceUD
	}
	q.deadline = units.Never
	q.expected, q.last = int64(cfg.RemotePSN), -1
	if n := cfg.MaxDestRdAtomic; n > 0 {
		q.res = make([]resource, 1<<bits.Len(uint(n-1)))
		q.resMask = uint32(len(q.res) - 1)
	}
	return q, nil
}

// ReadyToSend takes the queue pair from RTR to RTS.
func (q *QP) ReadyToSend(cfg SendConfig) error {
	switch {
	case q.state != ib.RTR:
		return fmt.Errorf("rc: ReadyToSend in state %v, expected RTR", q.state)
	case q.unreliable() && cfg != SendConfig{InitialPSN: cfg.InitialPSN, Window: cfg.Window}:
		return fmt.Errorf("rc: a queue pair of type %v waits for nothing: set InitialPSN and Window of SendConfig only", q.cfg.Type)
	case cfg.InitialPSN > maxPSN:
		return fmt.Errorf("rc: InitialPSN %#x, expected 24 bits", uint32(cfg.InitialPSN))
	case cfg.Timeout > 31:
		return fmt.Errorf("rc: Timeout %d, expected 0 to 31", cfg.Timeout)
	case cfg.RetryCount > 7:
		return fmt.Errorf("rc: RetryCount %d, expected 0 to 7", cfg.RetryCount)
	case cfg.RNRRetry > 7:
		return fmt.Errorf("rc: RNRRetry %d, expected 0 to 7", cfg.RNRRetry)
	case cfg.MaxRdAtomic < 0 || cfg.MaxRdAtomic > 255:
		return fmt.Errorf("rc: MaxRdAtomic %d, expected 0 to 255", cfg.MaxRdAtomic)
	case cfg.ReadPackets < 0:
		return fmt.Errorf("rc: ReadPackets %d, expected 0 or more", cfg.ReadPackets)
	case cfg.ReadPackets > 0 && q.cfg.Credits:
		return errors.New("rc: ReadPackets can't be set on a queue pair with Credits, which count whole READs")
	case cfg.AckReqEvery < 0:
		return fmt.Errorf("rc: AckReqEvery %d, expected 0 or more", cfg.AckReqEvery)
	case cfg.Window < 0 || cfg.Window > maxOutstandingPSNs:
		return fmt.Errorf("rc: Window %d, expected 0 to %d", cfg.Window, maxOutstandingPSNs)
	}
	if cfg.Window == 0 {
		cfg.Window = maxOutstandingPSNs
	}
	if cfg.AckReqEvery == 0 {
		cfg.AckReqEvery = defaultAckReqEvery
	}
	switch {
	case cfg.RTOHigh < 0 || cfg.RTOLow < 0:
		return fmt.Errorf("rc: RTOHigh %v and RTOLow %v, expected 0 or more", cfg.RTOHigh, cfg.RTOLow)
	case cfg.RTOLow > 0 && q.cfg.Reorder == 0:
		return errors.New("rc: RTOLow without Reorder: it is for selective repeat")
	}
	if cfg.Adp != nil {
		if cfg.AdpInitial > maxAdpExponent {
			return fmt.Errorf("rc: AdpInitial %d, expected 0 to %d", cfg.AdpInitial, maxAdpExponent)
		}
		if err := cfg.Adp.Validate(); err != nil {
			return err
		}
	}
	if n := q.cfg.Reorder; n > 0 {
		cfg.Window = min(cfg.Window, n)
	}
	q.sender = cfg
	q.state = ib.RTS
	first := int64(cfg.InitialPSN)
	q.una, q.next, q.sent, q.posted, q.asked = first, first, first, first, first
	q.window = int64(cfg.Window)
	q.timeout, q.timeoutLow = TimeoutTime(cfg.Timeout), cfg.RTOLow
	if cfg.RTOHigh > 0 {
		q.timeout = cfg.RTOHigh
	}
	q.adapt(&cfg)
	q.executed, q.resend, q.lostTo, q.recoverTo, q.guarded = first, first, first, first, -1
	q.retries, q.rnrRetries = cfg.RetryCount, cfg.RNRRetry
	return nil
}

// State returns RTR, RTS, SQD, SQE or Err.
func (q *QP) State() ib.QPState { return q.state }

// Counters returns the counters, which the driver may read and not write.
func (q *QP) Counters() *Counters { return &q.ctr }

// Drain takes the queue pair from RTS to SQD: requests that have begun are
// finished, no other is started. EventSQDrained follows, in eff or in that of
// a later call, when the last one is acknowledged.
func (q *QP) Drain(eff *Effects) error {
	eff.reset()
	if q.state != ib.RTS {
		return fmt.Errorf("rc: Drain in state %v, expected RTS", q.state)
	}
	q.state, q.drained = ib.SQD, false
	q.checkDrained(eff)
	return nil
}

// Resume takes the queue pair from SQD or SQE back to RTS.
func (q *QP) Resume() error {
	if q.state != ib.SQD && q.state != ib.SQE {
		return fmt.Errorf("rc: Resume in state %v, expected SQD or SQE", q.state)
	}
	q.state, q.failed = ib.RTS, false
	return nil
}

// ToError takes the queue pair to Err at the application's wish: nothing more
// is sent or accepted, and all work requests are flushed.
func (q *QP) ToError(eff *Effects) {
	eff.reset()
	q.answering = false
	q.enterErr(eff)
}

// enterErr ends everything but responses that were owed before (answering).
func (q *QP) enterErr(eff *Effects) {
	eff.Do |= DoComplete
	if q.state == ib.Err {
		return
	}
	q.state = ib.Err
	q.epoch++
	q.awaiting = awaitNothing
	q.rnrUntil = 0
	q.deadline = units.Never
	q.inflight, q.away = 0, 0
	if q.cfg.SharedRecv {
		eff.Events.add(ib.EventQPLastWQE)
	}
}

// Fresh reports whether d, which NextRequest or NextResponse has filled, should
// still be sent. It turns false when the requester went back, the responder
// restarted a READ or the queue pair failed after that call. The packet will then
// be described again, or is no longer needed.
func (q *QP) Fresh(d *Descriptor) bool {
	if d.response {
		return q.freshResponse(d)
	}
	return d.epoch == q.epoch && d.Header.PSN.Sub(wire(q.una)) >= 0
}

const maxPSN = 1<<24 - 1

// wire returns the PSN that represents p in packets.
func wire(p int64) units.PSN { return units.MakePSN(uint32(p)) }

// near returns, of the numbers whose PSN is p, the one nearest to ref.
func near(p units.PSN, ref int64) int64 { return ref + int64(p.Sub(wire(ref))) }

// Receive handles one packet of the peer with a good ICRC. It does not keep h.
// payload is its length in bytes without padding.
func (q *QP) Receive(now units.Time, h *Header, payload int, eff *Effects) {
	eff.reset()
	q.last = -1
	switch op := h.Opcode; {
	case q.state == ib.Err:
		eff.Drop = DropState
	case q.awaiting != awaitNothing:
		eff.Drop = DropBusy
	case op.Service() != q.service:
		eff.Drop = DropOpcode
	case q.service == ib.ServiceUC:
		q.receiveUnreliable(h, payload, eff)
	case q.service == ib.ServiceUD:
		q.receiveDatagram(h, payload, eff)
	case op >= ib.ReadResponseFirst && op <= ib.AtomicAcknowledge:
		q.receiveResponse(now, h, payload, eff)
	default:
		q.receiveRequest(h, payload, eff)
	}
}
