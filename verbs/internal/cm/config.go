package cm

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is what a Manager is made with. Times are exponents of
// 4.096 us * 2^n.
type Config struct {
	// CAGUID names the device to its peers.
	CAGUID uint64
	// Rand is the source of communication and transaction IDs: in production
	// crypto/rand.Reader, so that an attacker who does not see the messages can't
	// answer them.
	Rand io.Reader
	// MTU is the largest path MTU of the port. A REQ for more is refused.
	MTU ib.MTU `one:"256 512 1024 2048 4096"`
	// AckDelay is how long the device takes to acknowledge a packet (local CA
	// ACK delay).
	AckDelay uint8 `range:"[0,31]"`
	// PacketLifetime is how long a packet can stay in the network.
	PacketLifetime uint8 `range:"[0,31]"`
	// RemoteTimeout is how long the other side may take to answer a message,
	// LocalTimeout how long this side says that it may take.
	RemoteTimeout uint8 `range:"[0,31]"`
	LocalTimeout  uint8 `range:"[0,31]"`
	// MaxRetries is how often a message is sent again without an answer.
	MaxRetries uint8 `range:"[0,15]"`
	// ServiceTimeout is how long an MRA asks the other side to wait for the
	// application.
	ServiceTimeout uint8 `range:"[0,31]"`
	// MaxConnections bounds the connections, TimeWait included. A REQ beyond it
	// is dropped and a Connect refused.
	MaxConnections int `range:"[1,)" of:"connections"`
}

// DefaultConfig returns what rdma_cm of Linux 6.1 uses over Ethernet, without
// CAGUID and Rand: an ACK delay of 134 ms (15), a packet lifetime of 1.07 s (18),
// 4.3 s to answer (20), 15 retries, MRAs of 69 s (24).
func DefaultConfig() Config {
	return Config{
		MTU: 4096, AckDelay: 15, PacketLifetime: 18, RemoteTimeout: 20, LocalTimeout: 20, MaxRetries: 15,
		ServiceTimeout: 24, MaxConnections: 65536,
	}
}

var settings = field.Of[Config]("cm")

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if c.Rand == nil {
		return errors.New("cm: Rand is nil, expected crypto/rand.Reader outside of tests")
	}
	return settings.Check(c)
}

// Bounds of the waits that the other side's messages request. The lower one keeps a
// REQ from triggering a burst of REPs, the upper one keeps state from being held
// for hours.
const (
	minWait = 10 * units.Millisecond
	maxWait = 69 * units.Second
)

// Bounds of what REQs can be made to hold, whoever sends them.
const (
	// maxUnproven is the largest number of passive connections that wait for the RTU.
	maxUnproven = 1024
	// provenWithin is the time for which such a connection keeps its place for certain: many times what
	// REP and RTU take.
	provenWithin = units.Second
	// probeWait is the time that a peer has to confirm a connection that a REQ in the
	// peer's name contradicts.
	probeWait = units.Second
)

// exponent returns 4.096 us * 2^n.
func exponent(n uint8) units.Time { return 4096 * units.Nanosecond << (n & 31) }

// wait returns how long to wait for the answer to a message: the time that the
// other side may take, and the way there and back.
func wait(timeout, lifetime uint8) units.Time {
	return bound(exponent(timeout) + 2*exponent(lifetime))
}

func bound(t units.Time) units.Time { return min(max(t, minWait), maxWait) }

// ackTimeout returns the exponent of the ACK timeout of a queue pair: twice a
// packet's lifetime and the time that the other device takes (IBA 12.7.34). The
// sum of two powers of two is rounded as Linux does: up if the smaller is at
// least half of the larger, else down.
func ackTimeout(delay, lifetime uint8) uint8 {
	a, b := lifetime+1, delay
	if a < b {
		a, b = b, a
	}
	if b+1 >= a {
		a++
	}
	return min(a, 31)
}

// Endpoint is one side's part of a connection.
type Endpoint struct {
	QPN uint32 // of its queue pair, 2 to 2^24-1
	// StartingPSN is the one that the other side's first packet shall have (IBA
	// 12.7.31): a queue pair's rq_psn.
	StartingPSN units.PSN
	// ResponderResources is the number of READs and atomics of the other side it
	// can serve at once, InitiatorDepth how many it would issue at once.
	ResponderResources, InitiatorDepth uint8
	// RNRRetryCount is the number of times that the other side shall try again when there is
	// no receive posted, 0 to 7; 7 is without end.
	RNRRetryCount uint8
	FlowControl   bool   // its receive queue gives credits
	SRQ           bool   // its queue pair draws on a shared receive queue
	Private       []byte // for the other application
}

func (e *Endpoint) validate(private int) error {
	switch {
	case e.QPN < 2 || e.QPN > 1<<24-1:
		return fmt.Errorf("cm: queue pair number %d, expected 2 to 2^24-1", e.QPN)
	case e.StartingPSN > 1<<24-1:
		return fmt.Errorf("cm: StartingPSN %#x, expected 24 bits", uint32(e.StartingPSN))
	case e.RNRRetryCount > 7:
		return fmt.Errorf("cm: RNRRetryCount is %d, expected 0 to 7", e.RNRRetryCount)
	case len(e.Private) > private:
		return fmt.Errorf("cm: %d bytes of private data, expected at most %d", len(e.Private), private)
	}
	return nil
}

// Request holds the arguments of Connect.
type Request struct {
	Path      Path
	ServiceID uint64
	Endpoint         // Private has room for roce.REQPrivateBytes
	PathMTU   ib.MTU // at most Config.MTU
	// RetryCount is the number of times that either side sends again without an
	// acknowledgement, 0 to 7.
	RetryCount   uint8
	FlowLabel    uint32 // 20 bits
	TrafficClass uint8
	HopLimit     uint8
	SL           uint8 // 0 to 15
}

// Parameters are both sides' agreement, seen from this side: the attributes by which the
// queue pair is configured with. Timeout is an exponent.
type Parameters struct {
	Path                         Path
	QPN, RemoteQPN               uint32
	SQPSN, RQPSN                 units.PSN // of the first packet sent, and of the first expected
	PathMTU                      ib.MTU
	MaxRdAtomic, MaxDestRdAtomic uint8
	Timeout                      uint8
	RetryCount, RNRRetryCount    uint8
	FlowControl                  bool // both sides give credits
	RemoteSRQ                    bool
	FlowLabel                    uint32
	TrafficClass, HopLimit, SL   uint8
}

// Path is the two addresses that datagrams go between, IPv4 ones not mapped.
type Path struct{ Local, Remote netip.Addr }

func (p Path) normal() Path {
	return Path{p.Local.Unmap().WithZone(""), p.Remote.Unmap().WithZone("")}
}

func (p Path) valid() bool {
	return p.Local.IsValid() && p.Remote.IsValid() && p.Local.Is4() == p.Remote.Is4()
}
