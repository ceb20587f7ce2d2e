package wiretag

import (
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// shape is what the eBPF program knows of a form of tags. A body is what follows the
// EtherType, as an integer in network order.
type shape struct {
	etherType                 uint32
	quads                     uint32 // of 4 bytes
	value                     uint64 // the bits of the value
	signal, forward, returned uint64 // the bits that say of what, of a delay, and of one on its way back
}

// shapeOf asks the encoder which bits mean what.
func shapeOf(f *telemetry.DelayFormat) shape {
	body := func(t telemetry.DelayTag) uint64 {
		var b [telemetry.WideBytes]byte
		return bodyOf(b[:f.Put(b[:], t)])
	}
	s := shape{etherType: uint32(f.EtherType), quads: uint32(f.Form.Bytes() / 4), signal: f.Form.SignalBits()}
	s.forward, s.returned = body(telemetry.DelayTag{}), body(telemetry.DelayTag{Reflected: true})
	s.value = body(telemetry.DelayTag{Code: f.Form.MaxCode()}) ^ s.forward
	return s
}

// bodyOf returns the body of a tag.
func bodyOf(tag []byte) (v uint64) {
	for _, c := range tag[2:] {
		v = v<<8 | uint64(c)
	}
	return v
}

// present is the bit of a body that the program sets where there is a tag.
const present = 1 << 63

// delayOf returns what a body says.
func delayOf(f *telemetry.DelayFormat, body uint64) (units.Time, bool) {
	if body&present == 0 {
		return 0, false
	}
	var b [telemetry.WideBytes]byte
	n := f.Form.Bytes()
	for i := n - 1; i >= 2; i-- {
		b[i], body = byte(body), body>>8
	}
	b[0], b[1] = byte(f.EtherType>>8), byte(f.EtherType)
	t, ok := f.Parse(b[:n])
	return f.Delay(t.Code), ok
}
