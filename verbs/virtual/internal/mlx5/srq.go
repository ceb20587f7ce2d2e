package mlx5

import (
	"errors"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// SRQConfig describes a shared receive queue.
type SRQConfig struct {
	Buffer  uint64 // address of the WQEs, each of which names the next
	Record  uint64 // address of the doorbell record: the counter of posted WQEs
	Entries int    // a power of two, up to 1<<15
	Stride  int    // bytes of a WQE: a power of two, 32 to 2048
	Backend verbs.SRQ
	// Limit is called when fewer receives are left than SetLimit said
	// (IBV_EVENT_SRQ_LIMIT_REACHED).
	Limit func()
	// Failed is called once, when the list of WQEs is broken or can't be read
	// (IBV_EVENT_SRQ_ERR). The queue gives no receives any more.
	Failed func()
}

// SRQ is a shared receive queue.
type SRQ struct {
	e         *Engine
	cfg       SRQConfig
	ring      recvRing
	completed uint16 // receives that have ended
	limit     int
	failed    bool
	gone      bool
}

var errNoSource = errors.New("mlx5: the back end's receive queues do not take a verbs.RecvSource")

// CreateSRQ adds a shared receive queue. The back end's has to be a verbs.SourcedRecv.
func (e *Engine) CreateSRQ(c SRQConfig) (*SRQ, error) {
	if err := powerOfTwo("shared receive queue entries", c.Entries, 1, 1<<15); err != nil {
		return nil, err
	}
	if err := powerOfTwo("shared receive queue stride", c.Stride, 2*connectx.Octoword, fetchBytes); err != nil {
		return nil, err
	}
	to, ok := c.Backend.(verbs.SourcedRecv)
	if !ok {
		return nil, errNoSource
	}
	s := &SRQ{e: e, cfg: c}
	s.ring.init(e, sharedRecv, c.Buffer, c.Record, c.Entries, c.Stride)
	s.ring.linked = true
	e.mu.Lock()
	defer e.mu.Unlock()
	to.SetRecvSource(&s.ring)
	e.srqs = append(e.srqs, s)
	return s, nil
}

// SetLimit arms the limit event: fewer than n receives left. 0 disarms it.
func (s *SRQ) SetLimit(n int) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.limit = n
	s.checkLimit()
}

// Limit returns the limit that is armed, or 0.
func (s *SRQ) Limit() int {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.limit
}

// checkLimit raises the limit event if it is due.
func (s *SRQ) checkLimit() {
	if s.limit == 0 || s.failed {
		return
	}
	posted, ok := s.ring.posted()
	if ok && int(posted-s.completed) < s.limit {
		s.limit = 0
		if s.cfg.Limit != nil {
			s.cfg.Limit()
		}
	}
}

// onBroken takes notice of a ring that gives no receives any more.
func (s *SRQ) onBroken() {
	if s.failed || !s.ring.isBroken() {
		return
	}
	if s.failed = true; s.cfg.Failed != nil {
		s.cfg.Failed()
	}
}

// Close destroys the back end's queue and ends the use of the ring. It fails with
// verbs.ErrBusy while queue pairs draw on it.
func (s *SRQ) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.gone {
		return verbs.ErrClosed
	}
	if err := s.cfg.Backend.Close(); err != nil {
		return err
	}
	s.gone = true
	s.e.srqs = without(s.e.srqs, s)
	return nil
}
