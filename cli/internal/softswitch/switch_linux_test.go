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

	"github.com/sluice-rdma/sluice/cli/internal/softswitch/internal/plane"
	"github.com/sluice-rdma/sluice/p4"
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
		time.Sleep(time.Millisecond) //nolint:forbidigo // the load on a real interface
	}
	s := sw.Stats()
	o := s.Ports[1]
	limit := uint64(p[1].Rate.BytesIn(units.FromSeconds(s.Seconds)))
	if o.TxBytes > limit+1500 || o.TxPackets < 20 {
		t.Errorf("%d bytes left in %.3f s: the rate allows %d", o.TxBytes, s.Seconds, limit)
	}
	if o.MaxQueueBytes > int64(p[1].Buffer) {
		t.Errorf("the queue was %d bytes long, with a buffer of %v", o.MaxQueueBytes, p[1].Buffer)
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

// injected opens a switch of two ports, which nobody runs, and sockets on its hosts'
// ends.
func injected(t testing.TB, program bool) (sw *Switch, hosts [2]*socket) {
	t.Helper()
	p := ports(2)
	w := newWorld(t, p)
	cfg := Config{Ports: p}
	if program {
		prog, err := p4.Load("../../../p4/csig_mpd.p4", p4.Options{})
		must(t, err)
		cfg.Pipeline = prog.New()
	}
	var err error
	inside(t, w.home, func() { sw, err = Open(cfg) })
	must(t, err)
	t.Cleanup(func() { must(t, sw.Close()) })
	for i := range hosts {
		w.in(t, i, func() { hosts[i], err = openSocket("eth0") })
		must(t, err)
		t.Cleanup(func() { _ = unix.Close(hosts[i].fd) })
	}
	return sw, hosts
}

// inject sends a batch of copies of a frame.
func inject(t testing.TB, from *socket, b []byte) (send func()) {
	t.Helper()
	core, err := plane.New(plane.Config{Ports: []plane.PortConfig{{Buffer: 1, Packets: 1}, {Buffer: units.MiB, Packets: batch}}, Frame: 2000})
	must(t, err)
	for i := range batch {
		core.Receive(0, 0, b)
		core.Advance(0)
		from.out.packets[i] = core.Next(0, 1)
	}
	return func() { from.send(batch) }
}

func TestTurnAllocatesNothing(t *testing.T) {
	for _, program := range []bool{false, true} {
		sw, hosts := injected(t, program)
		send := inject(t, hosts[0], tagged(1024))
		turn := func() {
			send()
			sw.turn()
			hosts[1].receive()
		}
		for range 10 {
			turn()
		}
		before := sw.core.Counters(1).TxPackets
		if n := testing.AllocsPerRun(100, turn); n > 0 {
			t.Errorf("program %v: %v allocations a batch", program, n)
		}
		if n := sw.core.Counters(1).TxPackets - before; n < 50*batch {
			t.Errorf("program %v: %d packets came through", program, n)
		}
	}
}

// BenchmarkTurn measures the switch's time for a packet, with its system calls, from one
// virtual interface to another; the interfaces' own work counts.
func BenchmarkTurn(b *testing.B) {
	for name, program := range map[string]bool{"bridge": false, "csig_mpd": true} {
		b.Run(name, func(b *testing.B) {
			sw, hosts := injected(b, program)
			send := inject(b, hosts[0], tagged(1024))
			var spent time.Duration
			b.ReportAllocs()
			for b.Loop() {
				send()
				begin := time.Now()
				sw.turn()
				spent += time.Since(begin)
				hosts[1].receive()
			}
			n := float64(sw.core.Counters(1).TxPackets)
			b.ReportMetric(n/spent.Seconds(), "packets/s")
			b.ReportMetric(float64(spent.Nanoseconds())/n, "ns/packet")
		})
	}
}
