package connectx

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
)

// Each status comes back from its syndrome, and what has none is a general error.
func TestSyndromes(t *testing.T) {
	for s := ib.WCStatus(1); int(s) < len(syndromes); s++ {
		want := s
		if syndromes[s] == 0 {
			want = ib.WCGeneralErr
		}
		if got := Status(Syndrome(s)); got != want {
			t.Errorf("%v came back as %v, expected %v", s, got, want)
		}
	}
	// As public logs have them (docs/failures.md).
	for s, want := range map[ib.WCStatus]uint32{ib.WCSuccess: 0, ib.WCLocLenErr: 0, ib.WCLocProtErr: 0x52, ib.WCRetryExcErr: 0x81, ib.WCRNRRetryExcErr: 0, ib.WCGeneralErr: 0, ib.WCWRFlushErr: 0xf9} {
		if got := VendorErr(s, false); got != want {
			t.Errorf("%v has the vendor's %#x, expected %#x", s, got, want)
		}
		if want != 0xf9 {
			want = 0
		}
		if got := VendorErr(s, true); got != want {
			t.Errorf("%v of a receive has the vendor's %#x, expected %#x", s, got, want)
		}
	}
	for _, syndrome := range []uint8{0, 0x03, 0x23, 0xff} {
		if got := Status(syndrome); got != ib.WCGeneralErr {
			t.Errorf("syndrome %#x: %v, expected %v", syndrome, got, ib.WCGeneralErr)
		}
	}
}
