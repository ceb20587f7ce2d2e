package wirestamp

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
	"github.com/sluice-rdma/sluice/roce"
)

// source is where stamps come from: the kernel's hooks, or a test.
type source interface {
	// register has the packets of a connection stamped under an id: those to the
	// peer's queue pair, and the answers to the local one.
	register(id uint32, c connection) error
	unregister(id uint32, c connection) error
	// take hands over the stamps that are there. It does not wait, and one
	// goroutine at a time calls it.
	take(each func(*stamperEvent))
	// lost is how many stamps found no room.
	lost() uint64
	close() error
}

// connection is what packets tell of a reliable connection.
type connection struct {
	peer              netip.Addr
	peerQPN, localQPN uint32
}

// keys returns the connection's two directions.
func (c connection) keys() [2]stamperFlow {
	peer := c.peer.As16()
	return [2]stamperFlow{
		{Peer: peer, Qpn: c.peerQPN},
		{Peer: peer, Qpn: c.localQPN, Arriving: 1},
	}
}

// stamper is the program at an interface's hooks.
type stamper struct {
	objects stamperObjects
	at      tchook.Attachment
	ring    *bpfring.Ring
	each    func(*stamperEvent) // of take
	record  func([]byte)
	event   stamperEvent
}

// settings are what tests set otherwise.
type settings struct {
	ring   int // bytes; a power of two, and pages
	flows  int // directions of connections
	attach func(index int, p tchook.Programs) (tchook.Attachment, error)
}

// A stamp takes 32 bytes of the ring, so that it holds 131,072.
var defaults = settings{ring: 4 << 20, flows: 1 << 18, attach: tchook.Attach}

// filterName is what `tc filter show` calls the programs.
const filterName = "sluice-wirestamp"

// newStamper attaches the program to a network interface.
func newStamper(netdev string, set settings) (*stamper, error) {
	on, err := netlink.LinkByName(netdev)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", netdev, err)
	}
	header := uint32(14)
	switch kind := on.Attrs().EncapType; kind {
	case "ether", "loopback":
	case "none":
		header = 0
	default:
		return nil, fmt.Errorf("interface %s: packets of link type %s can't be read, only Ethernet and plain IP", netdev, kind)
	}

	// Kernels before 5.11 count maps against the memory that may be locked.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	spec, err := loadStamper()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[stamperVarLinkHeader].Set(header); err != nil {
		return nil, err
	}
	spec.Maps[stamperMapEvents].MaxEntries = uint32(set.ring)
	spec.Maps[stamperMapFlows].MaxEntries = uint32(set.flows)
	s := &stamper{}
	s.record = func(b []byte) {
		if len(b) == eventSize {
			s.event.decode(b)
			s.each(&s.event)
		}
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, err
	}
	if s.ring, err = bpfring.New(s.objects.Events.FD(), set.ring); err != nil {
		return nil, errors.Join(err, s.objects.Close())
	}
	if header != 0 {
		err = s.check()
	}
	if err == nil {
		s.at, err = set.attach(on.Attrs().Index, tchook.Programs{Name: filterName, Leaving: s.objects.Leaving, Arriving: s.objects.Arriving})
	}
	if err != nil {
		return nil, errors.Join(err, s.ring.Close(), s.objects.Close())
	}
	return s, nil
}

// check has the program stamp a packet that it is handed and looks at the stamp:
// that it comes, and that its clock is the one that readClock reads. In a time
// namespace it is not.
func (s *stamper) check() error {
	c := connection{peer: netip.IPv6Unspecified(), peerQPN: 1}
	if err := s.register(0, c); err != nil {
		return err
	}
	frame := make([]byte, 14+40+8+roce.BTHBytes+8)
	binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_IPV6)
	ip := frame[14:]
	ip[0], ip[6] = 0x60, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[42:], roce.Port)
	bth := ip[48:]
	bth[0], bth[7] = 10, 1 // WRITE_ONLY to queue pair 1
	before := readClock()
	if _, err := s.objects.Leaving.Run(&ebpf.RunOptions{Data: frame}); err != nil {
		return err
	}
	after := readClock()
	var got []stamperEvent
	s.take(func(e *stamperEvent) { got = append(got, *e) })
	if err := s.unregister(0, c); err != nil {
		return err
	}
	if len(got) != 1 {
		return fmt.Errorf("the eBPF program gave %d stamps of one packet", len(got))
	}
	if at := got[0].Ns; at < before || at > after {
		return fmt.Errorf("stamps are %v off CLOCK_MONOTONIC: leave the time namespace", time.Duration(at-before))
	}
	return nil
}

// readClock reads the clock of the stamps.
func readClock() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // it can't: the clock exists and t is memory
	}
	return uint64(t.Nano())
}

func (s *stamper) register(id uint32, c connection) error {
	for _, k := range c.keys() {
		if err := s.objects.Flows.Put(k, id); err != nil {
			return errors.Join(err, s.unregister(id, c))
		}
	}
	return nil
}

func (s *stamper) unregister(id uint32, c connection) error {
	var errs []error
	for _, k := range c.keys() {
		// Somebody else's by now, if the peer has given the number out anew.
		var now uint32
		err := s.objects.Flows.Lookup(k, &now)
		if err == nil && now == id {
			err = s.objects.Flows.Delete(k)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *stamper) take(each func(*stamperEvent)) {
	s.each = each
	s.ring.Take(s.record)
}

func (s *stamper) lost() uint64 {
	var n uint64
	if err := s.objects.Lost.Get(&n); err != nil {
		return 0
	}
	return n
}

func (s *stamper) close() error {
	return errors.Join(s.at.Detach(), s.ring.Close(), s.objects.Close())
}

// denied reports whether err is for want of privileges.
func denied(err error) bool { return errors.Is(err, os.ErrPermission) }
