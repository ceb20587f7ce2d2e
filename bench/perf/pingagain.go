package perf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// pingScore is how far a client is, over all of its connections.
type pingScore struct {
	ping   int  // the next
	letter byte // that it begins with
	times  *samples

	connections      uint64
	start, completed units.Time // of the first ping, and of the last one that came back
	outage           outage
	repaired         repaired
}

func newPingScore() *pingScore {
	return &pingScore{letter: 'A', times: newSamples(), start: units.Never}
}

// add adds a ping, and has the next.
func (s *pingScore) add(start, end units.Time, letter byte) {
	s.ping++
	s.letter = letter
	s.times.add(end - start)
	s.outage.extend(s.completed, end)
	s.completed = end
}

// lostPing reports whether the error of an end is the loss of its connection, or of the other end.
func lostPing(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, ib.WCRetryExcErr) || errors.Is(err, ib.WCWRFlushErr)
}

// client plays the client over connections that connect makes, within a time for each but the first.
func (s *pingScore) client(dev verbs.Device, cfg PingConfig, connect func(within time.Duration, play func(*pinger) error) error) (*PingResult, error) {
	played := false
	play := func(p *pinger) error {
		played = true
		s.connections++
		p.score = s
		if s.start == units.Never {
			s.start = p.now()
			s.completed = s.start
		}
		before := countRepairs(repaired{}, dev, cfg.Port, p.qp)
		err := p.Client()
		after := countRepairs(repaired{}, dev, cfg.Port, p.qp)
		after = after.since(&before)
		s.repaired.add(&after)
		return err
	}
	err := connect(0, play)
	lost, since, pings := err, clock(dev), s.ping
	for cfg.Reconnect > 0 && s.start != units.Never && (!played || lostPing(err)) && !errors.Is(err, verbs.ErrNoDevice) && !errors.Is(err, context.Canceled) {
		now := clock(dev)
		switch {
		case s.ping > pings:
			lost, since, pings = err, now, s.ping
		case now-since > units.FromDuration(cfg.Reconnect):
			return s.result(cfg), fmt.Errorf("%w, and no ping over a new connection within %v: %w", s.ended(lost), cfg.Reconnect, err)
		case !played: // who does not listen yet says nothing when it does
			verbs.Sleep(dev, 20*time.Millisecond)
		}
		played = false
		err = connect(max(cfg.Reconnect-(clock(dev)-since).Duration(), time.Millisecond), play)
	}
	return s.result(cfg), s.ended(err)
}

// ended says that the server went away before its client was done, if that is the error.
func (s *pingScore) ended(err error) error {
	if err != nil && over(err) == nil {
		return fmt.Errorf("the server ended the connection after %d pings", s.times.n)
	}
	return err
}

func (s *pingScore) result(cfg PingConfig) *PingResult {
	if s.start == units.Never {
		return nil // it has not begun
	}
	l := s.times.latency()
	r := &PingResult{Pings: s.times.n, Bytes: cfg.Size, MinUs: l.MinUs, AvgUs: l.AvgUs, MaxUs: l.MaxUs}
	if cfg.Reconnect > 0 {
		r.Reconnects, r.Outage, r.Repairs = s.connections-1, s.outage.report(s.start), s.repaired.report()
	}
	return r
}

// meeting is where the ends of one process make new exchanges.
type meeting struct {
	mu      sync.Mutex
	waiting []*exchange.Conn // for the server
	over    bool             // the client is done
}

func (m *meeting) arrive(client, server verbs.Device) (*exchange.Conn, error) {
	a, b, err := connection(client, server)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = append(m.waiting, exchange.New(b, false, 0))
	return exchange.New(a, true, 0), nil
}

func (m *meeting) wait(server verbs.Device, within time.Duration) (*exchange.Conn, error) {
	for until := clock(server) + units.FromDuration(within); ; verbs.Sleep(server, time.Millisecond) {
		switch c, over := m.next(); {
		case c != nil:
			return c, nil
		case over:
			return nil, errStopped
		case clock(server) >= until:
			return nil, verbs.ErrTimeout
		}
	}
}

// next takes the client's next exchange; over is set where none will come.
func (m *meeting) next() (c *exchange.Conn, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return nil, m.over
	}
	c, m.waiting = m.waiting[0], m.waiting[1:]
	return c, false
}

func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	for _, c := range m.waiting { // nobody is at their other end any more
		_ = c.Close()
	}
	m.waiting = nil
}
