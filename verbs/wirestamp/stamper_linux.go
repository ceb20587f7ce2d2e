package wirestamp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// source is the source of stamps: the kernel's hooks, or a test.
type source interface {
	overlay.Program
	// Register has the packets of a connection stamped under an id.
	Register(id uint32, c overlay.Connection) error
	// Take hands over the stamps that are there. It does not wait, and one
	// goroutine at a time calls it.
	Take(each func(*stamperEvent))
	// lost is the number of stamps that found no room.
	lost() uint64
}

// stamper is the program at an interface's hooks.
type stamper struct {
	*watcher.Program[stamperEvent]
	objects stamperObjects
}

// settings are the settings that only tests change.
type settings struct {
	ring   int // bytes; a power of two, and pages
	flows  int // directions of connections
	attach func(index int, p tchook.Programs) (tchook.Attachment, error)
}

// A stamp takes 32 bytes of the ring, so that it holds 131,072.
var defaults = settings{ring: 4 << 20, flows: 1 << 18, attach: tchook.Attach}

// filterName is the name of the programs in `tc filter show`.
const filterName = tchook.Prefix + "wirestamp"

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
		return nil, fmt.Errorf("interface %s: expected Ethernet or plain IP, got link type %s", netdev, kind)
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
	if err := watcher.Load(spec, &s.objects); err != nil {
		return nil, err
	}
	if s.Program, err = watcher.New[stamperEvent](&s.objects, s.objects.Flows, s.objects.Events); err != nil {
		return nil, err
	}
	if header != 0 {
		err = s.check()
	}
	if err == nil {
		var at tchook.Attachment
		if at, err = set.attach(on.Attrs().Index, tchook.Programs{Name: filterName, Leaving: s.objects.Leaving, Arriving: s.objects.Arriving}); err == nil {
			s.At = at
			return s, nil
		}
	}
	return nil, errors.Join(err, s.Close())
}

// check has the program stamp a packet that it is handed and looks at the stamp:
// that it comes, and that its clock is the one that watcher.ReadClock reads. In a time
// namespace it is not.
func (s *stamper) check() error {
	c := overlay.Connection{Peer: netip.IPv6Unspecified(), PeerQPN: 1}
	if err := s.Register(0, c); err != nil {
		return err
	}
	frame := make([]byte, 14+40+8+roce.BTHBytes+8)
	binary.BigEndian.PutUint16(frame[12:], unix.ETH_P_IPV6)
	ip := frame[14:]
	ip[0], ip[6] = 0x60, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[42:], roce.Port)
	bth := ip[48:]
	bth[0], bth[7] = 10, 1 // WRITE_ONLY to queue pair 1
	before := watcher.ReadClock()
	if _, err := s.objects.Leaving.Run(&ebpf.RunOptions{Data: frame}); err != nil {
		return err
	}
	after := watcher.ReadClock()
	var got []stamperEvent
	s.Take(func(e *stamperEvent) { got = append(got, *e) })
	if err := s.Unregister(0, c); err != nil {
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

func (s *stamper) lost() uint64 {
	var n uint64
	if err := s.objects.Lost.Get(&n); err != nil {
		return 0
	}
	return n
}
