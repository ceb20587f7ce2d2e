package softswitch

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/units"
)

func ports(n int) []Port {
	p := make([]Port, n)
	for i := range p {
		p[i] = Port{Buffer: plane.DefaultBuffer, Packets: plane.DefaultPackets}
	}
	return p
}

// Two hosts' kernels talk TCP through the switch, with all the offload that virtual
// interfaces have, over IPv4 and IPv6.
func TestKernelsTalk(t *testing.T) {
	p := ports(3)
	w := newWorld(t, p)
	sw := w.start(t, Config{Ports: p})
	data := make([]byte, 8<<20)
	_, _ = rand.Read(data)
	for _, where := range []string{"10.11.0.2", "fd11::2"} {
		var l net.Listener
		var err error
		w.in(t, 1, func() { l, err = net.Listen("tcp", net.JoinHostPort(where, "7000")) })
		must(t, err)
		got := make(chan []byte, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				got <- nil
				return
			}
			b, err := io.ReadAll(c)
			if err := errors.Join(err, c.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			got <- b
		}()
		w.in(t, 0, func() {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(where, "7000"), time.Minute)
			if err != nil {
				t.Error(err)
				_ = l.Close()
				return
			}
			_, err = c.Write(data)
			if err := errors.Join(err, c.Close()); err != nil {
				t.Error(err)
			}
		})
		if !bytes.Equal(<-got, data) {
			t.Errorf("%s: other bytes came", where)
		}
	}
	s := sw.Stats()
	if s.Unknown+s.TooLong != 0 || s.Ports[0].TxErrors+s.Ports[1].TxErrors != 0 {
		t.Errorf("frames were lost: %+v", s)
	}
	if third := s.Ports[2].TxPackets; third > 100 {
		t.Errorf("a host that is not concerned was sent %d packets", third)
	}
}

// Frames come out as they went in: those with VLAN tags, of which the kernel takes
// the outer one away, and those of EtherTypes that nobody knows.
func TestFramesAreUntouched(t *testing.T) {
	p := ports(2)
	w := newWorld(t, p)
	w.start(t, Config{Ports: p})
	var hosts [2]*socket
	for i := range hosts {
		w.in(t, i, func() {
			var err error
			hosts[i], err = openSocket("eth0")
			must(t, err)
		})
		defer unix.Close(hosts[i].fd)
	}
	core, err := plane.New(plane.Config{Ports: []plane.PortConfig{{Buffer: 1, Packets: 1}, {Buffer: 1, Packets: 1}}, Frame: 2000})
	must(t, err)
	for name, kind := range map[string][]byte{
		"plain":     {0x88, 0xb5},
		"VLAN":      {0x81, 0, 0x20, 7, 0x88, 0xb5},
		"two VLANs": {0x88, 0xa8, 0, 9, 0x81, 0, 0x20, 7, 0x88, 0xb5},
	} {
		sent := append([]byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8}, kind...)
		sent = append(sent, "what a frame may bring with it, and more than 60 bytes of it"...)
		core.Receive(0, 0, sent)
		core.Advance(0)
		k := core.Next(0, 1)
		hosts[0].out.packets[0] = k
		hosts[0].send(1)
		core.Free(k)
		for came := false; !came; {
			wait := []unix.PollFd{{Fd: int32(hosts[1].fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(wait, 60_000); n == 0 && err == nil {
				t.Fatalf("%s: nothing came", name)
			}
			for i := range hosts[1].receive() {
				got := hosts[1].in.frames[i].bytes
				if bytes.Equal(got[:12], sent[:12]) {
					came = true
					if !bytes.Equal(got, sent) {
						t.Errorf("%s: sent %x, came %x", name, sent, got)
					}
				}
			}
		}
	}
}

// However much is sent, no more leaves than the port's rate allows, the queue is no
// longer than its buffer, and what did not fit is counted.
func TestRateAndBuffer(t *testing.T) {
	p := ports(2)
	p[1].Rate, p[1].Buffer = 20*units.Mbps, 20_000
	w := newWorld(t, p)
	sw := w.start(t, Config{Ports: p})
	var from, to net.PacketConn
	var err error
	w.in(t, 0, func() { from, err = net.ListenPacket("udp", "10.11.0.1:7000") })
	must(t, err)
	w.in(t, 1, func() { to, err = net.ListenPacket("udp", "10.11.0.2:7000") })
	must(t, err)
	defer func() { _, _ = from.Close(), to.Close() }()
	b := make([]byte, 1000)
	count := 0
	dst := to.LocalAddr()
	var took time.Duration
	for begin := time.Now(); took < 2*time.Second; took = time.Since(begin) {
		for range 20 {
			_, err := from.WriteTo(b, dst)
			must(t, err)
			count++
		}
		time.Sleep(time.Millisecond)
	}
	s := sw.Stats()
	o := s.Ports[1]
	limit := uint64(p[1].Rate.BytesIn(units.FromSeconds(s.Seconds)))
	if o.TxBytes > limit+1500 || o.TxPackets < 20 {
		t.Errorf("%d bytes left in %.3f s: the rate allows %d", o.TxBytes, s.Seconds, limit)
	}
	if o.MaxQueueBytes > p[1].Buffer {
		t.Errorf("the queue was %v long, with a buffer of %v", o.MaxQueueBytes, p[1].Buffer)
	}
	if count > 4000 && o.Drops+s.Ports[0].Missed == 0 {
		t.Errorf("nothing was dropped of %d packets: %+v", count, o)
	}
	if most := p[1].Rate.Serialize(p[1].Buffer + 1500).Microseconds(); o.DelayMaxUs > 1.02*most {
		t.Errorf("a packet was %.0f us in a queue of %.0f us", o.DelayMaxUs, most)
	}
}

func TestOpenErrors(t *testing.T) {
	p := ports(2)
	w := newWorld(t, p)
	for want, c := range map[string][]Port{
		"1 ports":              {{Interface: "p0", Buffer: 1, Packets: 1}},
		"no interface nowhere": {p[0], {Interface: "nowhere", Buffer: 1, Packets: 1}},
		"p0 is given twice":    {p[0], p[0]},
		"interface lo is down": {p[0], {Interface: "lo", Buffer: 1, Packets: 1}},
		"a buffer of 0B":       {p[0], {Interface: "p1", Packets: 1}},
	} {
		inside(t, w.home, func() {
			if _, err := Open(Config{Ports: c}); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
				t.Errorf("%q: %v", want, err)
			}
		})
	}
}
