package softswitch

import (
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// entries are those of p4/sluice's forwarding for the hosts of a world: what has no
// entry goes to all.
const entries = `
mc_mgrp_create 1
mc_node_create 1 0 1 2
mc_node_associate 1 0
setdefault forward to_group(group:1)
add forward hdr.mac.dst:0x020000000001 to_port(port:0)
add forward hdr.mac.dst:0x020000000002 to_port(port:1)
add forward hdr.mac.dst:0x020000000003 to_port(port:2)
`

// program loads one of the programs in p4.
func program(t testing.TB, name string, define ...string) *p4.Pipeline {
	t.Helper()
	prog, err := p4.Load("../../../p4/"+name, p4.Options{Define: define})
	if err != nil {
		t.Fatal(err)
	}
	pl := prog.New()
	if err := p4.Configure(pl, "entries", []byte(entries)); err != nil {
		t.Fatal(err)
	}
	return pl
}

// tagged is a Write's middle packet with an empty CSIG tag, from host 1 to host 3.
func tagged(payload int) []byte { return packet("csig_mpd.p4", payload) }

// packet is a Write's middle packet of a sender that wants what a program supplies.
func packet(program string, payload int) []byte {
	form, tag := telemetry.Wide, true
	udp := roce.UDPFields{SrcPort: 0xc001, DstPort: roce.Port}
	var shim []byte
	switch program {
	case "csig_mpd.p4":
	case "poseidon_mpd.p4":
		form = telemetry.Value
	case "int.p4":
		tag = false
		shim = make([]byte, telemetry.INT64.Bytes(0))
		telemetry.INT64.Put(shim, roce.Port)
		udp.DstPort = telemetry.INTPort
	default:
		tag = false
	}
	f := telemetry.DefaultDelayFormat(form)
	b := make([]byte, 200+payload)
	n := copy(b, []byte{2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1})
	if tag {
		n += f.Put(b[n:], telemetry.DelayTag{})
	}
	n += copy(b[n:], []byte{8, 0})
	udp.Len = roce.UDPBytes + len(shim) + roce.BTHBytes + payload + roce.ICRCBytes
	ip := roce.IPv4Fields{TotalLen: roce.IPv4Bytes + udp.Len, TTL: 64, Src: netip.MustParseAddr("10.11.0.1"), Dst: netip.MustParseAddr("10.11.0.3")}
	n += ip.Put(b[n:])
	n += udp.Put(b[n:])
	n += copy(b[n:], shim)
	b[n] = 7 // RC, RDMA WRITE Middle
	n += roce.BTHBytes + payload + roce.ICRCBytes
	return b[:n]
}

func programSwitch(t testing.TB, p *p4.Pipeline) *plane.Switch {
	t.Helper()
	c := plane.Config{Frame: 2000, Program: &pipeline{Pipeline: p}}
	for range 4 {
		c.Ports = append(c.Ports, plane.PortConfig{Buffer: plane.DefaultBuffer, Packets: 100})
	}
	c.Ports[2].Rate = units.Gbps
	s, err := plane.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The program sees how long a packet was in its port's queue, in its architecture's
// clock, and writes that into its tag.
func TestProgramSeesTheQueue(t *testing.T) {
	for name, tick := range map[string]units.Time{"csig_mpd.p4": units.Microsecond, "csig_mpd_tna.p4": units.Nanosecond} {
		prog, err := p4.Load("../../../p4/"+name, p4.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := programSwitch(t, prog.New())
		b := tagged(1024)
		for range 5 {
			s.Receive(0, 3, b) // whose pair is port 2
		}
		f := telemetry.DefaultDelayFormat(telemetry.Wide)
		lasts := units.Gbps.Serialize(units.Bytes(len(b)))
		s.Advance(units.Second)
		for i := range units.Time(5) {
			p := s.Next(units.Second, 2)
			if p == nil {
				t.Fatalf("%s: %d packets came out", name, i)
			}
			tags, ok := f.Find(p.Bytes())
			got := f.Delay(tags.Forward.Code)
			if !ok || got < i*lasts-tick || got > i*lasts+tick {
				t.Errorf("%s: packet %d says %v, was in the queue for %v", name, i, got, i*lasts)
			}
			s.Free(p)
		}
	}
}

// What no entry is for goes to all other ports.
func TestProgramFloods(t *testing.T) {
	s := programSwitch(t, program(t, "csig_mpd.p4"))
	b := tagged(100)
	copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	s.Receive(0, 1, b)
	s.Advance(units.Second)
	for port, want := range []bool{true, false, true} {
		if p := s.Next(units.Second, port); (p != nil) != want {
			t.Errorf("port %d: a copy %v, want %v", port, p != nil, want)
		}
	}
}

func forward(s *plane.Switch, now *units.Time, b []byte) {
	*now += 9 * units.Microsecond
	s.Receive(*now, 0, b)
	for p := s.Next(*now, 2); p != nil; p = s.Next(*now, 2) {
		s.Free(p)
	}
}

var programs = []string{"csig_mpd.p4", "poseidon_mpd.p4", "int.p4", "ein.p4"}

func TestProgramAllocatesNothing(t *testing.T) {
	for _, name := range programs {
		s := programSwitch(t, program(t, name))
		b, now := packet(name, 1024), units.Time(0)
		for range 50 {
			s.Receive(now, 0, b)
		}
		if n := testing.AllocsPerRun(200, func() { forward(s, &now, b) }); n > 0 {
			t.Errorf("%s: %v allocations a packet", name, n)
		}
	}
}

func BenchmarkProgram(b *testing.B) {
	for _, name := range programs {
		b.Run(name, func(b *testing.B) {
			s := programSwitch(b, program(b, name))
			data, now := packet(name, 1024), units.Time(0)
			b.ReportAllocs()
			for b.Loop() {
				forward(s, &now, data)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
