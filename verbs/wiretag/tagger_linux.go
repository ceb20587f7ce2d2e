package wiretag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/bpfring"
	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/telemetry"
)

// source is where events come from: the kernel's hooks, or a test.
type source interface {
	// register has the packets of a connection looked at, under an id.
	register(id uint32, c connection, flags uint32) error
	unregister(id uint32, c connection) error
	// take hands over the events that are there. It does not wait, and one
	// goroutine at a time calls it.
	take(each func(*taggerEvent))
	counts() taggerCounters
	close() error
}

// connection is what packets tell of a reliable connection.
type connection struct {
	peer              netip.Addr
	peerQPN, localQPN uint32
}

// keys returns the connection's two directions.
func (c connection) keys() [2]taggerFlow {
	peer := c.peer.As16()
	return [2]taggerFlow{
		{Peer: peer, Qpn: c.peerQPN},
		{Peer: peer, Qpn: c.localQPN, Arriving: 1},
	}
}

// What the program is to do for a connection.
const (
	flagTags    = 1 << iota // requests leave with a tag
	flagReports             // what comes back is reported
)

// An id of a connection is an index with a generation above, so that what is said of
// one that is gone reaches no other.
const (
	indexBits = 16
	maxFlows  = 1 << indexBits
)

// tagger is the program at an interface's hooks.
type tagger struct {
	objects taggerObjects
	at      tchook.Attachment
	ring    *bpfring.Ring
	each    func(*taggerEvent) // of take
	record  func([]byte)
	event   taggerEvent
}

// settings are what tests set otherwise.
type settings struct {
	ring   int // bytes; a power of two, and pages
	flows  int // connections
	attach func(index int, p tchook.Programs) (tchook.Attachment, error)
}

// An event takes 64 bytes of the ring, so that it holds 65,536.
var defaults = settings{ring: 4 << 20, flows: maxFlows, attach: tchook.Attach}

// filterName is what `tc filter show` calls the programs.
const filterName = "sluice-wiretag"

// newTagger attaches the program to a network interface.
func newTagger(netdev string, c *Config, set settings) (*tagger, error) {
	on, err := netlink.LinkByName(netdev)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", netdev, err)
	}
	if kind := on.Attrs().EncapType; kind != "ether" && kind != "loopback" {
		return nil, fmt.Errorf("interface %s: tags are Ethernet's, and its link type is %s", netdev, kind)
	}
	// Kernels before 5.11 count maps against the memory that may be locked.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	spec, err := loadTagger()
	if err != nil {
		return nil, err
	}
	s := shapeOf(&c.Format)
	for name, v := range map[string]any{
		taggerVarTagType: s.etherType, taggerVarTagQuads: s.quads, taggerVarTagValue: s.value,
		taggerVarSignalMask: s.signal, taggerVarSignalForward: s.forward, taggerVarSignalEcho: s.returned,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("eBPF program: %s: %w", name, err)
		}
	}
	spec.Maps[taggerMapEvents].MaxEntries = uint32(set.ring)
	spec.Maps[taggerMapFlows].MaxEntries = uint32(2 * set.flows)
	spec.Maps[taggerMapConns].MaxEntries = uint32(set.flows)
	t := &tagger{}
	t.record = func(b []byte) {
		if len(b) == eventSize {
			t.event.decode(b)
			t.each(&t.event)
		}
	}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, err
	}
	if t.ring, err = bpfring.New(t.objects.Events.FD(), set.ring); err != nil {
		return nil, errors.Join(err, t.objects.Close())
	}
	// Tags are the outermost: off first, and on last.
	t.at, err = set.attach(on.Attrs().Index, tchook.Programs{Name: filterName, Leaving: t.objects.Leaving, Arriving: t.objects.Arriving, LeavingLast: true})
	if err != nil {
		return nil, errors.Join(err, t.ring.Close(), t.objects.Close())
	}
	return t, nil
}

const eventSize = 48

// decode reads a record of the program.
func (e *taggerEvent) decode(b []byte) {
	_ = b[eventSize-1]
	e.Ns, e.Way, e.Back = binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
	e.Sent, e.Id, e.Psn = binary.NativeEndian.Uint64(b[24:]), binary.NativeEndian.Uint32(b[32:]), binary.NativeEndian.Uint32(b[36:])
	e.Opcode, e.Syndrome, e.Probe = b[40], b[41], b[42]
}

func (t *tagger) register(id uint32, c connection, flags uint32) error {
	if err := t.objects.Conns.Put(id&(maxFlows-1), taggerConn{Id: id, Flags: flags}); err != nil {
		return err
	}
	for _, k := range c.keys() {
		if err := t.objects.Flows.Put(k, id); err != nil {
			return errors.Join(err, t.unregister(id, c))
		}
	}
	return nil
}

func (t *tagger) unregister(id uint32, c connection) error {
	var errs []error
	for _, k := range c.keys() {
		// Somebody else's by now, if the peer has given the number out anew.
		var now uint32
		err := t.objects.Flows.Lookup(k, &now)
		if err == nil && now == id {
			err = t.objects.Flows.Delete(k)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *tagger) take(each func(*taggerEvent)) {
	t.each = each
	t.ring.Take(t.record)
}

func (t *tagger) counts() (c taggerCounters) {
	_ = t.objects.Counts.Get(&c) // of a map that exists
	return c
}

func (t *tagger) close() error {
	return errors.Join(t.at.Detach(), t.ring.Close(), t.objects.Close())
}

// readClock reads the clock of the events.
func readClock() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // it can't: the clock exists and t is memory
	}
	return uint64(time.Duration(t.Nano()))
}

// Available reports why Wrap could not read a network interface's telemetry; nil if it
// could. It has the kernel check the program, and attaches nothing.
func Available(netdev string) error {
	cfg := DefaultConfig(telemetry.Wide)
	t, err := newTagger(netdev, &cfg, settings{
		ring: os.Getpagesize(), flows: 1,
		attach: func(int, tchook.Programs) (tchook.Attachment, error) { return tchook.Detached(), nil },
	})
	if err != nil {
		return explain(netdev, err)
	}
	return t.close()
}

// explain says what is missing.
func explain(netdev string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("an eBPF program on %s needs CAP_BPF and CAP_NET_ADMIN: run as root, or setcap cap_bpf,cap_net_admin+ep PROGRAM: %w", netdev, err)
	}
	return fmt.Errorf("an eBPF program on %s: %w", netdev, err)
}
