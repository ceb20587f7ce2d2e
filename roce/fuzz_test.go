package roce

import (
	"bytes"
	"testing"
)

// zeroReserved clears what Packet does not keep: the pad, the seven bits beside the
// A bit, the reserved bytes of DETH and CNP, and the ICRC.
func zeroReserved(b []byte) {
	l := forms[b[0]].layout
	b[8] &= bthAckReq
	if l&hasDETH != 0 {
		b[BTHBytes+4] = 0
	}
	if l&isCNP != 0 {
		clear(b[BTHBytes : BTHBytes+cnpReserved])
	}
	end := len(b) - ICRCBytes
	clear(b[end-int(BTH(b).Pad()):])
}

// Any bytes decode to a packet that encodes to the same bytes, or to an error.
func FuzzFrame(f *testing.F) {
	for _, frame := range framesOf(f, fixture) {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var where Frame
		if where.ParseEthernet(frame) != nil {
			return
		}
		if len(where.IP) > len(frame) || len(where.IB) != where.Len {
			t.Fatalf("found %+v in %d bytes", where, len(frame))
		}
		if len(where.IB) >= BTHBytes+ICRCBytes && ICRC(where.IP) != plainICRC(where.IP) {
			t.Fatalf("ICRC %#x, by the rule %#x", ICRC(where.IP), plainICRC(where.IP))
		}
		var p, q Packet
		payload, err := p.Decode(where.IB)
		if err != nil {
			return
		}
		got := encode(&p, payload)
		want := bytes.Clone(where.IB)
		zeroReserved(want)
		if !bytes.Equal(got, want) {
			t.Fatalf("%x encodes as\n%x", want, got)
		}
		if _, err := q.Decode(got); err != nil || q != p {
			t.Fatalf("%+v becomes %+v, %v", p, q, err)
		}
	})
}

// Any datagram behind a UDP socket.
func FuzzPacket(f *testing.F) {
	for _, frame := range roceFrames(f) {
		f.Add(frame[42:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		n, headersErr := p.DecodeHeaders(b)
		payload, err := p.Decode(b)
		if err == nil && (headersErr != nil || n+len(payload)+int(p.Pad)+ICRCBytes != len(b)) {
			t.Fatalf("%d bytes: %d of headers, %d of payload, pad %d", len(b), n, len(payload), p.Pad)
		}
	})
}

// Any MAD decodes to a message that encodes to a MAD that decodes the same, and to
// the same bytes but for reserved fields.
func FuzzMAD(f *testing.F) {
	for _, m := range cmOf(f) {
		f.Add([]byte(m))
		for _, other := range []Attribute{AttrMRA, AttrREJ} {
			b := bytes.Clone(m)
			b[17] = byte(other)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMAD(b)
		if err != nil {
			return
		}
		type message interface {
			Decode(m MAD) error
			Put(b []byte, tid uint64) (MAD, error)
		}
		of := map[Attribute]func() message{
			AttrREQ: func() message { return new(REQ) }, AttrREP: func() message { return new(REP) },
			AttrRTU: func() message { return new(RTU) }, AttrDREQ: func() message { return new(DREQ) },
			AttrDREP: func() message { return new(DREP) }, AttrMRA: func() message { return new(MRA) },
			AttrREJ: func() message { return new(REJ) }, AttrSIDRREQ: func() message { return new(SIDRREQ) },
			AttrSIDRREP: func() message { return new(SIDRREP) },
		}
		v, w := of[m.Attribute()](), of[m.Attribute()]()
		if err := v.Decode(m); err != nil {
			t.Fatal(err)
		}
		first, err := v.Put(make([]byte, MADBytes), m.TransactionID())
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		for i := range first {
			if first[i]&^m[i] != 0 {
				t.Fatalf("byte %d: %#x was written where %#x was read", i, first[i], m[i])
			}
		}
		if err := w.Decode(first); err != nil {
			t.Fatal(err)
		}
		second, err := w.Put(make([]byte, MADBytes), m.TransactionID())
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%x, then\n%x", err, first, second)
		}
	})
}

// Any private data.
func FuzzIPCM(f *testing.F) {
	var req REQ
	if err := req.Decode(cmOf(f)[0]); err != nil {
		f.Fatal(err)
	}
	f.Add(req.Private)
	six := bytes.Clone(req.Private)
	six[1] = 0x60
	f.Add(six)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again IPCM
		rest, err := h.Decode(b)
		if err != nil {
			return
		}
		if len(rest) != len(b)-IPCMBytes {
			t.Fatalf("%d of %d bytes follow", len(rest), len(b))
		}
		out := make([]byte, IPCMBytes)
		if h.Put(out) != IPCMBytes {
			t.Fatalf("%+v can't be written", h)
		}
		if _, err := again.Decode(out); err != nil || again != h {
			t.Fatalf("%+v becomes %+v, %v", h, again, err)
		}
	})
}
