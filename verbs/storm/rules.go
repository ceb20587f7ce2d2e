package storm

import (
	"github.com/sluice-rdma/sluice/units"
)

// observer stands on the wire between soft devices, and holds what they send against the rules
// of docs/storm.md, of which each failure names one: by the twins of their queue pairs.
type observer struct {
	run     *run
	ends    map[flowKey]*end // of connections
	traffic []traffic        // by host
	notices []notices        // by host
	twins
}

// traffic is what a host's device has sent and got.
type traffic struct{ sentPackets, sentBytes, gotPackets, gotBytes uint64 }

// notices are the congestion notifications that a host's device has sent, and the packets of another
// partition that it has got.
type notices struct{ sent, foreign uint64 }

// flowKey is a queue pair of a host.
type flowKey struct {
	host int
	qpn  uint32
}

func newObserver(r *run) *observer {
	return &observer{run: r, ends: map[flowKey]*end{}, traffic: make([]traffic, r.cfg.Processes), notices: make([]notices, r.cfg.Processes), twins: newTwins(r.cfg.Processes)}
}

// begin is called when an end's queue pair is connected, and finish when it is in error or gone.
func (o *observer) begin(e *end) {
	if o != nil {
		o.ends[flowKey{e.p.ID, e.hello.qpn}] = e
	}
}

func (o *observer) finish(e *end) {
	if o == nil {
		return
	}
	if k := (flowKey{e.p.ID, e.hello.qpn}); o.ends[k] == e {
		delete(o.ends, k)
	}
}

// knows reports whether a host has a queue pair of that number, as far as is known.
func (o *observer) knows(host int, qpn uint32) bool { return o.byQPN[flowKey{host, qpn}] != nil }

// ahead is a number that a requester has nothing to do with.
func (o *observer) ahead(host int, qpn uint32) units.PSN {
	if t := o.byQPN[flowKey{host, qpn}]; t != nil {
		return units.MakePSN(uint32(t.sent + far))
	}
	return far
}

// tamper notes that what does not fit comes to a queue pair, by which its connection may fail. It
// reports whether it has one.
func (o *observer) tamper(host int, qpn uint32) bool {
	e := o.ends[flowKey{host, qpn}]
	if e == nil {
		return false
	}
	other := e.link.other(e.side)
	if other == nil || other.isOver {
		return false
	}
	e.tampered, other.tampered = true, true
	return true
}

// sent looks at a packet that leaves.
func (o *observer) sent(now units.Time, from, to int, p []byte) {
	o.traffic[from].sentPackets++
	o.traffic[from].sentBytes += uint64(len(p))
	o.leaves(now, from, to, p)
}

// delivered looks at a packet before its device gets it, first of a batch or
// not.
func (o *observer) delivered(stamp uint64, first bool, from, to int, trafficClass uint8, p []byte) {
	now := o.run.engine.Now()
	if first {
		o.quiet(now, to)
		clear(o.words)
	}
	o.traffic[to].gotPackets++
	o.traffic[to].gotBytes += uint64(len(p))
	o.arrives(now, stamp, from, to, trafficClass, p)
}

// counted holds what devices count against what went over the wire.
func (o *observer) counted() {
	if o == nil {
		return
	}
	for host, d := range o.run.devices {
		c, ok := d.(interface{ Counters() map[string]uint64 })
		if !ok {
			continue
		}
		got, w := c.Counters(), o.traffic[host]
		for name, want := range o.twinCounts(host) {
			if name == "out_of_buffer" {
				want += got["rx_ud_no_receive"]
			}
			if got[name] != want {
				o.run.failf("rule 14: process %d's device counts %d %s, and there were %d", host, got[name], name, want)
			}
		}
		for name, want := range map[string]uint64{"np_cnp_sent": o.notices[host].sent, "rx_bad_pkey": o.notices[host].foreign} {
			if got[name] != want {
				o.run.failf("rule 14: process %d's device counts %d %s, and there were %d", host, got[name], name, want)
			}
		}
		for name, want := range map[string]uint64{"sent_pkts": w.sentPackets, "sent_bytes": w.sentBytes, "rcvd_pkts": w.gotPackets, "rcvd_bytes": w.gotBytes} {
			if got[name] != want {
				o.run.failf("rule 8: process %d's device counts %d %s, and the wire %d", host, got[name], name, want)
			}
		}
	}
}
