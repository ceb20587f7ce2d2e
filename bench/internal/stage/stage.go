// Package stage runs P4 programs in the switches of a model. It encodes each packet
// that a switch takes off a queue as on the wire, and runs the program with the
// architecture's metadata for the model's queues. The telemetry that the program
// wrote is the packet's from then on.
//
// The model has chosen the port before the program sees the packet, so the program's
// choice of a port counts only where it drops the packet. From switch to switch a
// packet carries only the telemetry that the model knows: the largest delay, the
// per-hop records, EIN and ECN. Other fields that a program writes are lost after
// the switch. Frames have no payload: a frame ends after the transport headers, and
// its lengths are those of the whole packet.
package stage

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
)

// Transport is a stage's knowledge about a packet's transport headers.
type Transport struct {
	Header *rc.Header
	DestQP uint32
}

// Config is the configuration that the switches and hosts of a network share.
type Config struct {
	// Delay is the format in which hosts and programs write the largest delay.
	Delay telemetry.DelayFormat
	// INT is the format of their per-hop records.
	INT telemetry.INTFormat
	// Transport returns a packet's transport headers, valid until the next call. Nil,
	// or no header, makes every packet the middle of an RDMA WRITE.
	Transport func(fabric.Handle) Transport
}

// Stage is a program at one switch, with its state. It is a fabric.Stage, and used
// as one.
type Stage struct {
	cfg      *Config
	pipeline *p4.Pipeline
	ports    []uint16 // by LinkID
	in       p4.Intrinsic
	verdict  p4.Verdict
	middle   rc.Header
	frame    [frameRoom]byte
	faults   Faults
}

// Faults counts what a program did that the model has no place for.
type Faults struct {
	// Dropped is packets that the program dropped.
	Dropped uint64
	// Unreadable is packets that it sent with telemetry cut short or of another form,
	// which then counts as none.
	Unreadable uint64
	// Copies is the number of packets it sent besides the packet itself; they are lost.
	Copies uint64
}

// MACs, VLAN tag, two delay tags, IPv6, UDP, INT and transport headers fit with room.
const frameRoom = 256

// New returns a stage for the switch of that name. Ports have the numbers of the
// order in which the topology connects them to the switch, from 1 on.
func New(program *p4.Program, cfg *Config, topo *fabric.Topology, name string) *Stage {
	s := &Stage{cfg: cfg, pipeline: program.New(), ports: Ports(topo, name), middle: rc.Header{Opcode: ib.WriteMiddle}}
	return s
}

// Ports returns the number that each link's port has at the switch of that name, by
// LinkID of the way out; 0 is for links of others.
func Ports(topo *fabric.Topology, name string) []uint16 {
	ports := make([]uint16, topo.Links())
	next := uint16(1)
	for l := range fabric.LinkID(topo.Links()) {
		if topo.From(l) == name {
			ports[l] = next
			next++
		}
	}
	return ports
}

// Pipeline returns the program's state, for entries of its tables before packets
// come.
func (s *Stage) Pipeline() *p4.Pipeline { return s.pipeline }

// Faults returns the program's actions so far that the model has no place for.
func (s *Stage) Faults() Faults { return s.faults }

// Depart runs the program on a packet.
func (s *Stage) Depart(d *fabric.Departure) {
	frame := s.build(d)
	s.in = p4.Intrinsic{
		IngressPort: s.ports[d.In.Reverse()], EgressPort: s.ports[d.Port], Routed: true,
		Queue: d.Priority, Class: d.Priority, Length: d.Size,
		IngressTime: d.Now - d.Waited, EnqueueTime: d.Now - d.Waited, DequeueTime: d.Now,
		EnqueueDepth: p4.Depth{Packets: d.AheadPackets, Bytes: d.Ahead},
		DequeueDepth: p4.Depth{Packets: d.BehindPackets, Bytes: d.Behind},
	}
	s.pipeline.Process(frame, &s.in, &s.verdict)
	sent := s.verdict.Sent
	at := -1
	for i := range sent {
		if sent[i].Port == s.in.EgressPort && at < 0 {
			at = i
			continue
		}
		s.faults.Copies++
	}
	if at < 0 {
		s.faults.Dropped++
		d.Drop = true
		return
	}
	s.read(d, sent[at].Data)
}

// hostMAC and hostIP are the addresses of a host of the model.
func hostMAC(b []byte, host int32) {
	b[0], b[1] = 0x02, 0x53
	binary.BigEndian.PutUint32(b[2:], uint32(host))
}

func hostIP(host int32) netip.Addr {
	n := uint32(host) + 1
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// build puts a packet into bytes.
func (s *Stage) build(d *fabric.Departure) []byte {
	b := s.frame[:]
	hostMAC(b, d.Dst)
	hostMAC(b[6:], d.Src)
	n := 12
	if d.Telemetry == telemetry.MaxDelay {
		n += s.cfg.Delay.Put(b[n:], telemetry.DelayTag{Code: s.cfg.Delay.Quantise(d.MaxDelay)})
	}
	b[n], b[n+1] = 0x08, 0x00
	n += 2
	tos := d.Priority << 5
	switch {
	case d.Flags&fabric.CE != 0:
		tos |= roce.ECNCE
	case d.Flags&fabric.ECT != 0:
		tos |= roce.ECNECT0
	}
	ipLen := int(d.Size) - 4 - n // without the FCS
	ip := roce.IPv4Fields{TOS: tos, TotalLen: ipLen, TTL: 64 - d.Hops, DontFragment: true, Src: hostIP(d.Src), Dst: hostIP(d.Dst)}
	n += ip.Put(b[n:])
	udp := roce.UDPFields{SrcPort: 0xc000 | uint16(d.FlowHash&0x3fff), DstPort: roce.Port, Len: ipLen - roce.IPv4Bytes}
	if d.Telemetry == telemetry.PerHop {
		udp.DstPort = s.cfg.INT.Port
		n += udp.Put(b[n:])
		n += s.putINT(b[n:], d)
	} else {
		n += udp.Put(b[n:])
	}
	p := roce.Packet{Header: s.middle, DestQP: d.FlowHash & 0xffffff, PKey: roce.DefaultPKey}
	if s.cfg.Transport != nil {
		if t := s.cfg.Transport(d.Packet); t.Header != nil {
			p.Header, p.DestQP = *t.Header, t.DestQP
		}
	}
	bth := n
	n += p.Put(b[n:])
	if d.Flags&fabric.EIN != 0 {
		telemetry.SetEIN(b[bth:n], telemetry.EIN)
	}
	return b[:n]
}

// putINT writes the records that a packet has.
func (s *Stage) putINT(b []byte, d *fabric.Departure) int {
	form := s.cfg.INT.Form
	end := form.Put(b, roce.Port)
	for _, h := range d.Path.Path() {
		end = form.Push(b, end, s.cfg.INT.Record(h))
	}
	if d.Path.Overflow {
		form.MarkFull(b)
	}
	return end
}

// read takes what the program wrote into the packet.
func (s *Stage) read(d *fabric.Departure, b []byte) {
	if d.Telemetry == telemetry.MaxDelay {
		t, ok := s.cfg.Delay.Find(b)
		if ok && t.HasForward {
			d.MaxDelay = s.cfg.Delay.Delay(t.Forward.Code)
			b = t.Remove(b)
		} else {
			s.faults.Unreadable++
		}
	}
	const ip, udp = roce.EthernetBytes, roce.EthernetBytes + roce.IPv4Bytes
	bth := udp + roce.UDPBytes
	if len(b) < bth {
		s.faults.Unreadable++
		return
	}
	if d.Telemetry == telemetry.PerHop {
		form := s.cfg.INT.Form
		v, _, err := form.Parse(b[bth:])
		if err != nil || roce.UDP(b[udp:]).DstPort() != s.cfg.INT.Port {
			s.faults.Unreadable++
		} else {
			bth += len(v)
			d.Overflow = form.Overflow(v)
			if k := form.Hops(v); k > int(d.Path.N) {
				d.Record = s.cfg.INT.Near(form.Hop(v, k-1), telemetry.Hop{TxBytes: d.TxBytes, Time: d.Now})
				d.Recorded = true
			}
		}
	}
	if roce.IPv4(b[ip:]).TOS()&3 == roce.ECNCE && d.Flags&fabric.ECT != 0 {
		d.Flags |= fabric.CE
	}
	if len(b) >= bth+roce.BTHBytes && telemetry.EINBits(b[bth:])&telemetry.EIN != 0 {
		d.Flags |= fabric.EIN
	}
}

var _ fabric.Stage = (*Stage)(nil)

func (f Faults) String() string {
	return fmt.Sprintf("%d packets dropped by the program, %d with telemetry that can't be read, %d copies lost", f.Dropped, f.Unreadable, f.Copies)
}
