package verbs_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

type region struct{ verbs.MR }

func (region) Addr() uint64 { return 1 << 40 }
func (region) LKey() uint32 { return 3 }

// A length is the SGE's, or the post says that it can't be: it is never cut short.
func TestSGEOfKeepsItsLength(t *testing.T) {
	l := limitsOf(ib.RC)
	for _, n := range []int{0, 1, ib.MaxMessage - 1, ib.MaxMessage, ib.MaxMessage + 1, math.MaxUint32, 1 << 32, 1<<32 + 8, math.MaxInt, -1, math.MinInt} {
		s := verbs.SGEOf(region{}, 5, n)
		if fits := n >= 0 && n <= ib.MaxMessage; fits && int(s.Length) != n || s.Addr != 1<<40+5 || s.LKey != 3 {
			t.Errorf("%d bytes: %+v", n, s)
		}
		errSend := verbs.CheckSend(l, &verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{s}})
		errRecv := verbs.CheckRecv(1, &verbs.RecvWR{SGL: []verbs.SGE{s}})
		for what, err := range map[string]error{"send": errSend, "receive": errRecv} {
			if want := n >= 0 && n <= ib.MaxMessage; (err == nil) != want || err != nil && !strings.Contains(err.Error(), "send several") {
				t.Errorf("a %s of %d bytes: %v", what, n, err)
			}
		}
	}
}
