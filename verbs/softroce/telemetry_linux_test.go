package softroce

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

func TestTelemetryOptions(t *testing.T) {
	for query, want := range map[string]verbs.TelemetryKinds{
		"":                                verbs.ReportsECN,
		"telemetry=ein":                   verbs.ReportsECN | verbs.ReportsEIN,
		"mode=packet&telemetry=csig-wide": verbs.ReportsECN | verbs.ReportsMaxDelay,
		"mode=packet&telemetry=csig-wide&step=1024ns&base=4096ns":    verbs.ReportsECN | verbs.ReportsMaxDelay,
		"mode=packet&telemetry=csig-compact":                         verbs.ReportsECN | verbs.ReportsMaxDelay,
		"telemetry=poseidon&mode=packet&tagtype=0x1234":              verbs.ReportsECN | verbs.ReportsMaxDelay,
		"mode=packet&telemetry=int&intport=5000&intrates=13:200Mbps": verbs.ReportsECN | verbs.ReportsPath,
	} {
		o, err := parseOptions(query)
		if err != nil || o.collect.kinds() != want {
			t.Errorf("%s: reports %04b, %v; want %04b", query, o.collect.kinds(), err, want)
		}
		if strings.Contains(query, "step") && (o.delay.Step != 1024*units.Nanosecond || o.delay.Base != 4096*units.Nanosecond) {
			t.Errorf("%s: %+v", query, o.delay)
		}
		if strings.Contains(query, "tagtype") && o.delay.EtherType != 0x1234 {
			t.Errorf("%s: %+v", query, o.delay)
		}
		if strings.Contains(query, "int&") && (o.hops.Port != 5000 || o.hops.Rates[13] != 200*units.Mbps || o.hops.Rates[0] != 25*units.Gbps) {
			t.Errorf("%s: %+v", query, o.hops)
		}
	}
	for query, want := range map[string]string{
		"telemetry=csig":                                  "expected csig-wide, ",
		"telemetry=csig-wide":                             "mode=packet",
		"telemetry=int":                                   "mode=packet",
		"mode=packet&step=1us":                            "requires telemetry=csig-wide",
		"mode=packet&telemetry=int&tagtype=1":             "requires telemetry=csig",
		"mode=packet&telemetry=poseidon&step=1024ns":      "requires telemetry=csig-wide",
		"mode=packet&telemetry=csig-wide&intport=1":       "requires telemetry=int",
		"mode=packet&telemetry=csig-wide&step=1000ns":     "power of two",
		"mode=packet&telemetry=csig-wide&tagtype=0x0800":  "IPv4",
		"mode=packet&telemetry=csig-wide&tagtype=0x18000": "0 to 65535",
		"mode=packet&telemetry=int&intrates=15:200Mbps":   "0 to 14",
		"mode=packet&telemetry=int&intrates=13":           "CODE:RATE",
		"mode=packet&telemetry=int&intrates=13:fast":      "rate",
	} {
		if _, err := parseOptions(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// packetForms are the names of the forms that add to a packet.
func packetForms() (names []string) {
	for _, f := range telemetry.Forms() {
		if f.Bytes > 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// What packetWire puts around a packet comes off again, and what is left is what it
// would have sent without: at a plain NIC the ICRC is good.
func TestPutOnAndTakeOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "six")
		src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddrPort("10.0.0.2:4791")
		if six {
			src, dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddrPort("[fd00::2]:4791")
		}
		o, err := parseOptions("mode=packet&telemetry=" + rapid.SampledFrom(packetForms()).Draw(t, "kind"))
		if err != nil {
			t.Fatal(err)
		}
		c := &o.collect
		w := &packetWire{gids: newGIDs([]netip.Addr{src}), counters: new(wireCounters), collect: c, ethernet: c.tags}
		w.hops.loopback, w.hops.known = true, map[netip.Addr]*neighbour{}
		payload := rapid.SliceOfN(rapid.Byte(), 0, 1024).Draw(t, "payload")
		p := roce.GSI(1, roce.DefaultPKey)
		data := make([]byte, endpoint.MaxPacket)
		n := p.Put(data)
		n += copy(data[n:], payload)
		data = data[:n+roce.ICRCBytes]
		m := &message{route: endpoint.Route{Dst: dst, HopLimit: 64, SrcPort: 0xc001}}
		m.carried.Collects = rapid.Bool().Draw(t, "collects")
		var records [telemetry.MaxINTBytes]byte
		if c.int {
			end := c.hops.Form.Put(records[:], roce.Port)
			for i := range rapid.IntRange(0, c.hops.Form.MaxHops()).Draw(t, "hops") {
				end = c.hops.Form.Push(records[:], end, telemetry.HopRecord{Low: uint64(i * 77)})
			}
			if rapid.Bool().Draw(t, "returns") {
				m.carried.set(&endpoint.Carried{INT: telemetry.INT(records[:end])})
			}
		} else if m.carried.Collects {
			m.carried.HasReturns = rapid.Bool().Draw(t, "returns")
			m.carried.Returns.Code = rapid.Uint32Range(0, c.delay.Form.MaxCode()).Draw(t, "code")
		}
		which := w.prepare(0, m, bytes.Clone(data))
		if (which == frames) != (c.tags && m.carried.Collects) {
			t.Fatalf("goes by socket %d", which)
		}
		sent := unsafe.Slice(w.iovs[0].Base, w.iovs[0].Len)
		whole := bytes.Clone(sent)
		got, brought := c.takeOff(whole, which == frames)
		var f roce.Frame
		if which == frames {
			err = f.ParseEthernet(got)
		} else {
			err = f.ParseIP(got)
		}
		if err != nil || !roce.CheckICRC(f.IP) || !bytes.Equal(f.IB[:n], data[:n]) || f.SrcPort != 0xc001 {
			t.Fatalf("%v; sent %x, left %x", err, sent, got)
		}
		tags := &brought.Tags
		if c.tags && (tags.HasForward != m.carried.Collects || tags.HasReflected != m.carried.HasReturns || tags.HasReflected && tags.Reflected.Code != m.carried.Returns.Code) {
			t.Fatalf("%+v came of %+v", tags, m.carried)
		}
		if c.int && m.carried.Collects != (brought.INT != nil && !c.hops.Form.Reflected(brought.INT)) && len(m.carried.INT) == 0 {
			t.Fatalf("%x came of %+v", brought.INT, m.carried)
		}
		if len(m.carried.INT) > 0 && (!c.hops.Form.Reflected(brought.INT) || !bytes.Equal(brought.INT[4:], m.carried.INT[4:])) {
			t.Fatalf("%x came, of %x", brought.INT, m.carried.INT)
		}
	})
}

// Two devices with telemetry on one interface, without a switch: the reports say that
// nobody queued anything, and what is sent arrives.
func TestTelemetryOverLoopback(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("packet sockets need root")
	}
	for _, kind := range packetForms() {
		t.Run(kind, func(t *testing.T) {
			a, b := openPair(t, "soft:127.0.0.61?mode=packet&telemetry="+kind, "soft:127.0.0.62?mode=packet&telemetry="+kind, 1024)
			const n = 300_000
			src, dst := bytes.Repeat([]byte{9, 1, 2}, n/3), make([]byte, n)
			ms, md := a.reg(src), b.reg(dst)
			for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
				wc, err := a.do(verbs.SendWR{Opcode: op, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()})
				if err != nil {
					t.Fatal(err)
				}
				var got verbs.Telemetry
				q := a.qp.(verbs.TelemetryQP)
				q.CompletionTelemetry(&wc, &got)
				if form, _ := telemetry.FormNamed(kind); got.HasMaxDelay != form.IsDelay() || got.MaxHopDelay != 0 || got.Path.N != 0 {
					t.Errorf("%v: %+v", op, got)
				}
				b.look()
				if !bytes.Equal(src, dst) {
					t.Errorf("%v: other bytes came", op)
				}
			}
			for _, h := range []*end{a, b} {
				if d := h.look(); d.counters.badICRC.Load()+d.counters.malformed.Load()+d.counters.sendErrors.Load() > 0 {
					t.Errorf("%v", d.Counters())
				}
			}
		})
	}
}

// Whatever frame comes by a packet socket to a device that reads telemetry.
func FuzzTelemetryFrame(f *testing.F) {
	local := netip.MustParseAddr("10.0.0.1")
	kinds := packetForms()
	wires := make([]*packetWire, len(kinds))
	for i, kind := range kinds {
		o, err := parseOptions("mode=packet&telemetry=" + kind)
		if err != nil {
			f.Fatal(err)
		}
		w := &packetWire{gids: newGIDs([]netip.Addr{netip.MustParseAddr("10.0.0.2")}), counters: new(wireCounters), collect: &o.collect, ethernet: true}
		w.hops.loopback, w.hops.known = true, map[netip.Addr]*neighbour{}
		p := roce.GSI(1, roce.DefaultPKey)
		data := make([]byte, roce.HeaderBytes(p.Opcode)+roce.MADBytes+roce.ICRCBytes)
		p.Put(data)
		m := &message{route: endpoint.Route{Dst: netip.AddrPortFrom(local, roce.Port), HopLimit: 64}}
		m.carried.Collects = true
		m.carried.HasReturns = o.collect.tags
		which := w.prepare(0, m, data)
		b := bytes.Clone(unsafe.Slice(w.iovs[0].Base, w.iovs[0].Len))
		if which != frames {
			b = append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0}, b...)
		}
		f.Add(b, uint8(i))
		w.gids = newGIDs([]netip.Addr{local})
		wires[i] = w
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		w := wires[int(kind)%len(wires)]
		got := 0
		w.out = sink(t, &got)
		n := len(b)
		w.parse(b, 0)
		w.out.flush()
		if got > n {
			t.Errorf("%d bytes of %d went on", got, n)
		}
	})
}
