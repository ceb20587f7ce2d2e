package roce

import (
	"bytes"
	"errors"
	"testing"
)

// Written out by hand from tables 124 and 125 of IBA 12.11, as Linux has them in
// include/rdma/ibta_vol1_c12.h.
func TestServiceIDResolutionByHand(t *testing.T) {
	head := func(attr byte) []byte {
		return []byte{1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, attr, 0, 0, 0, 0, 0, 0}
	}
	const tid = 0x0102030405060708
	req := SIDRREQ{RequestID: 0xa1a2a3a4, PKey: 0xffff, ServiceID: PortSpaceUDP.ServiceID(0x1b2c), Private: []byte("p")}
	rep := SIDRREP{
		RequestID: 0xa1a2a3a4, Status: SIDRNoQP, InfoLength: 1, QPN: 0xc1c2c3, ServiceID: PortSpaceUDP.ServiceID(0x1b2c), QKey: 0x01234567,
		Info: []byte("i"), Private: []byte("q"),
	}
	wantREQ := append(head(0x17), 0xa1, 0xa2, 0xa3, 0xa4, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x1b, 0x2c, 'p')
	wantREP := append(head(0x18), 0xa1, 0xa2, 0xa3, 0xa4, 3, 1, 0, 0, 0xc1, 0xc2, 0xc3, 0, 0, 0, 0, 0, 1, 0x11, 0x1b, 0x2c, 1, 0x23, 0x45, 0x67, 'i')
	wantREP = append(append(wantREP, zeros(71)...), 'q')
	for _, c := range []struct {
		put  func([]byte, uint64) (MAD, error)
		want []byte
	}{{req.Put, wantREQ}, {rep.Put, wantREP}} {
		got, err := c.put(bytes.Repeat([]byte{0xee}, MADBytes), tid)
		if want := append(c.want, zeros(MADBytes-len(c.want))...); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v\n%x, want\n%x", err, got, want)
		}
		if m, err := ParseMAD(got); err != nil || m.LocalCommID() != 0xa1a2a3a4 || m.RemoteCommID() != 0 {
			t.Errorf("%v, IDs %#x and %#x", err, m.LocalCommID(), m.RemoteCommID())
		}
	}
	var back SIDRREP
	m, _ := rep.Put(make([]byte, MADBytes), tid)
	if err := back.Decode(m); err != nil || back.Status != SIDRNoQP || back.QPN != rep.QPN || back.Status.String() != "no QP available" || SIDRStatus(9).String() != "SIDRStatus(9)" {
		t.Errorf("%v: %v", err, back.Status)
	}
	if err := new(SIDRREQ).Decode(m); !errors.Is(err, UnknownCMMessage) {
		t.Errorf("a SIDR_REP as SIDR_REQ: %v", err)
	}
	long := SIDRREP{QPN: 1 << 24}
	if _, err := long.Put(make([]byte, MADBytes), tid); err == nil {
		t.Error("a QPN of 25 bits was written")
	}
}
