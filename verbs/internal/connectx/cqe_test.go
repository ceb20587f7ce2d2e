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
	for _, syndrome := range []uint8{0, 0x03, 0x23, 0xff} {
		if got := Status(syndrome); got != ib.WCGeneralErr {
			t.Errorf("syndrome %#x: %v, expected %v", syndrome, got, ib.WCGeneralErr)
		}
	}
}
