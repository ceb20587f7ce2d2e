package pcie

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// gen6x16 is a link of flits under a NIC.
func gen6x16(t testing.TB) Config {
	t.Helper()
	rate, err := ParseLink("gen6x16")
	if err != nil {
		t.Fatal(err)
	}
	return Config{Rate: rate, MPS: 256, MRRS: 512, RCB: 64, Headers: Flit, FEC: 2 * units.Nanosecond, ReadLatency: 500 * units.Nanosecond, WriteLatency: 250 * units.Nanosecond}
}

// 16 lanes of 64 GT/s carry 1024 Gbps, of which flits leave 236 bytes of each 256: 944.
// They are 2 ns long. What goes in one has arrived when it has, and is corrected.
func TestFlits(t *testing.T) {
	c := gen6x16(t)
	if c.Rate != 944*units.Gbps {
		t.Fatalf("gen6x16 carries %v", c.Rate)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	// The request's 16 bytes are in the first flit, of 2 ns; 64 bytes and 12 in the first one of the other direction, too.
	flit := 2 * units.Nanosecond
	request := flit + c.FEC
	// The answer takes its place behind the request, and has its latency beside it.
	data := (request+c.Rate.Serialize(76)+flit-1)/flit*flit + c.FEC
	if got, want := p.Read(0, 1<<32, 64, ForPayload), data+c.ReadLatency; got != want {
		t.Errorf("a read of 64 bytes takes %v, and %v by its flits", got, want)
	}
	// Many writes of 256 bytes: headers are 16 of 272 bytes.
	p, _ = New(c)
	var sent units.Time
	for range 1000 {
		sent, _ = p.Write(0, 1<<32, 256, ForPayload)
	}
	if got, want := float64(256*1000*8)/float64(sent)*1e3, 944.0*256/272; got < want*0.99 || got > want {
		t.Errorf("%.1f Gbps of payload, expected %.1f", got, want)
	}
}
