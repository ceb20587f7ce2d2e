package softroce

import (
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// handWire sends from one device to another without sockets.
type handWire struct {
	from  netip.AddrPort
	paths pathCache
	take  func(data []byte, c control)
}

func (w *handWire) segments() int                     { return maxSegments }
func (w *handWire) path(r *endpoint.Route) *roce.Path { return w.paths.get(w.from, r.Dst) }
func (w *handWire) send(b *batch) {
	for i := range b.messages {
		m := &b.messages[i]
		c := control{hopLimit: defaultTTL}
		if m.segments > 1 {
			c.segment = m.size
		}
		w.take(b.buf[m.at:m.at+m.n], c)
	}
}

// replaceWire makes a device send by a handWire.
func replaceWire(h *end, take func(data []byte, c control)) {
	d := h.dev.(*device)
	d.mu.Lock()
	d.out = &handWire{from: localOf(h), take: take}
	d.mu.Unlock()
}

func localOf(h *end) netip.AddrPort {
	d := h.dev.(*device)
	return netip.AddrPortFrom(d.link.addrs[0], d.opt.Port)
}

// socketOf is a receiver of UDP messages for a device.
func socketOf(h *end) *udpSocket {
	d := h.dev.(*device)
	return &udpSocket{local: localOf(h), clock: &d.clock, counters: &d.counters, out: newCollector(d.deliver)}
}

// The window is bounded in bytes, and for small MTUs in packets.
func TestWindow(t *testing.T) {
	long := Shape{Rate: 8 * units.Gbps, Delay: units.Millisecond} // holds 1 MB each way
	for _, c := range []struct {
		chosen int
		shape  Shape
		mtu    ib.MTU
		want   int
	}{
		{0, Shape{}, 4096, 64}, {0, Shape{}, 2048, 128}, {0, Shape{}, 1024, 256}, {0, Shape{}, 512, 256}, {0, Shape{}, 256, 256},
		{7, Shape{}, 4096, 7}, {1024, Shape{}, 256, 1024}, {0, long, 4096, 64 + 489 + 1024}, {9, long, 4096, 9},
		{0, Shape{Rate: 8 * units.Gbps}, 4096, 64 + 1024}, {0, Shape{Rate: units.Gbps}, 4096, 64 + 306}, {0, Shape{Delay: units.Millisecond}, 4096, 64},
	} {
		if got := windowOf(c.chosen, &c.shape, c.mtu); got != c.want {
			t.Errorf("window=%d at MTU %d: expected %d packets, got %d", c.chosen, c.mtu, c.want, got)
		}
	}
}

// BenchmarkUserSpace is what a packet costs both ends together without system calls.
func BenchmarkUserSpace(b *testing.B) {
	for _, c := range []contest{
		{ib.WRRDMAWrite, 1 << 20, 4096, "", 1, 1}, {ib.WRRDMAWrite, 1 << 20, 1024, "", 1, 1}, {ib.WRRDMAWrite, 8, 1024, "", 32, 32},
	} {
		b.Run(c.name(), func(b *testing.B) {
			x, y := openPair(b, here, there, c.mtu)
			for _, h := range [][2]*end{{x, y}, {y, x}} {
				from, to := localOf(h[0]), socketOf(h[1])
				replaceWire(h[0], func(data []byte, c control) {
					to.parse(data, c, from, 0)
					to.out.flush()
				})
			}
			s := newStream(x, y, &c)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.qp.PostSend(s.wr); err != nil {
					b.Fatal(err)
				}
				for {
					n, err := x.cq.(*completionQueue).core.Poll(s.wc)
					if err != nil || n > 0 && s.wc[0].Status != ib.WCSuccess {
						b.Fatal(err, s.wc[0].Status)
					}
					if n > 0 {
						break
					}
					d := x.dev.(*device)
					d.mu.Lock()
					d.flush() // what PostSend has left to the helper
				}
			}
			packets := c.round * c.packets()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*packets), "ns/packet")
		})
	}
}
