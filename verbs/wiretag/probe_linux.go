package wiretag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// pathKey is what a packet's way through the network depends on.
type pathKey struct {
	from, to netip.AddrPort
	class    uint8 // traffic class: DSCP and ECN
}

// window is the largest number of a path's probes under way: a further one replaces the
// oldest.
const window = 64

// path is where connections that share one send probes. The device's lock guards it.
type path struct {
	key     pathKey
	id      uint32 // the index in Device.probes
	users   int
	fd      int
	number  uint32 // of the last probe
	last    uint64 // when it was sent
	pending [window]pending
	newest  report // at is 0 if there is no answer
	packet  [probeSize]byte
}

// pending is a probe that was sent at that time, 0 if it was answered or never sent.
type pending struct {
	sent   uint64
	number uint32
}

// A probe is a BTH and what the program calls struct probe.
const (
	probeSize    = roce.BTHBytes + 32
	probeMagic   = 0x536c5470
	probeVersion = 1
	probeRequest = 1
)

// joinPath has a connection's path probed. The lock is held.
func (d *Device) joinPath(q *qp, k pathKey) error {
	p := d.paths[k]
	if p == nil {
		fd, err := probeSocket(k)
		if err != nil {
			return fmt.Errorf("a socket for probes from %v to %v: %w", k.from, k.to, err)
		}
		p = &path{key: k, fd: fd}
		for int(p.id) < len(d.probes) && d.probes[p.id] != nil {
			p.id++
		}
		if int(p.id) == len(d.probes) {
			d.probes = append(d.probes, nil)
		}
		d.probes[p.id], d.paths[k] = p, p
		b := p.packet[:]
		b[0], b[2], b[3] = telemetry.ProbeOpcode, 0xff, 0xff // with the default partition key
		b = b[roce.BTHBytes:]
		binary.BigEndian.PutUint32(b, probeMagic)
		b[4], b[5] = probeVersion, probeRequest
		binary.BigEndian.PutUint32(b[8:], p.id)
	}
	p.users++
	q.path = p
	return nil
}

// leavePath ends that. The lock is held.
func (d *Device) leavePath(q *qp) {
	p := q.path
	if p == nil {
		return
	}
	q.path = nil
	if p.users--; p.users > 0 {
		return
	}
	d.stats.ProbesLost += p.overdue(watcher.ReadClock(), 0)
	delete(d.paths, p.key)
	d.probes[p.id] = nil
	_ = unix.Close(p.fd)
}

// probeSocket returns a socket that sends from and to the addresses of a path. Others
// may send from there as well: answers are taken before they reach a socket.
func probeSocket(k pathKey) (fd int, err error) {
	domain, from, to := unix.AF_INET, sockaddr(k.from), sockaddr(k.to)
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if k.from.Addr().Is6() {
		domain, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	fd, err = unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = errors.Join(
		os.NewSyscallError("SO_REUSEADDR", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)),
		os.NewSyscallError("traffic class", unix.SetsockoptInt(fd, level, option, int(k.class))),
		os.NewSyscallError("bind", unix.Bind(fd, from)),
		os.NewSyscallError("connect", unix.Connect(fd, to)),
	)
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zone(a.Addr().Zone())}
}

// probe sends a probe unless the last one was too short a time ago. The lock is held.
func (d *Device) probe(p *path) {
	now := watcher.ReadClock()
	if now-p.last < uint64(d.cfg.ProbeInterval) {
		return
	}
	p.last = now
	p.number++
	slot := &p.pending[p.number%window]
	if slot.sent != 0 {
		d.stats.ProbesLost++
	}
	*slot = pending{now, p.number}
	binary.BigEndian.PutUint32(p.packet[roce.BTHBytes+12:], p.number)
	binary.NativeEndian.PutUint64(p.packet[roce.BTHBytes+16:], now)
	d.stats.Probes++
	// A probe that is not sent is not answered, and counts as lost: the queue is full,
	// or the peer has reported that no program listens.
	_, _ = unix.Write(p.fd, p.packet[:])
}

// answered takes the answer of a probe and reports whether it is one. The lock is
// held.
func (d *Device) answered(e *taggerEvent) bool {
	if int64(e.Id) >= int64(len(d.probes)) || d.probes[e.Id] == nil {
		return false
	}
	p := d.probes[e.Id]
	slot := &p.pending[e.Psn%window]
	// Who has not seen the probe can't know the time that it was sent.
	if slot.sent == 0 || slot.number != e.Psn || slot.sent != e.Sent {
		return false
	}
	sent := slot.sent
	slot.sent = 0
	d.stats.ProbesAnswered++
	hop, ok := delayOf(&d.cfg.Format, e.Back)
	if !ok || sent < p.newest.at {
		return true // no switch on the path has telemetry, or a later answer reported more
	}
	p.newest = report{at: sent, hop: hop}
	p.newest.reverse, _ = delayOf(&d.cfg.Format, e.Way)
	return true
}

// latest returns the report of the newest answer, unless that is too old. The lock is
// held.
func (d *Device) latest(p *path) (report, bool) {
	r := p.newest
	return r, r.at != 0 && watcher.ReadClock()-r.at <= uint64(d.cfg.MaxAge)
}

// overdue is how many probes have waited for an answer longer than that.
func (p *path) overdue(now, age uint64) (n uint64) {
	for i := range p.pending {
		if s := p.pending[i].sent; s != 0 && now-s >= age {
			n++
		}
	}
	return n
}
