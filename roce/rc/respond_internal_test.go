package rc

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// ResponsesLeft returns the READ responses owed, up to the caller's bound.
func TestResponsesLeft(t *testing.T) {
	p := keeping(t, SendConfig{})
	for _, packets := range []uint32{3, 4} {
		if _, err := p.a.PostSend(&Request{Op: ib.WRRDMARead, Length: packets << 10}); err != nil {
			t.Fatal(err)
		}
		if !p.a.NextRequest(p.now, &p.d) {
			t.Fatal("no request")
		}
		p.b.Receive(p.now, &p.d.Header, 0, &p.eff)
		p.b.Checked(p.now, true, &p.eff)
	}
	for left := 7; left >= 0; left-- {
		for _, most := range []int{0, 2, 5, 100} {
			if got, want := p.b.ResponsesLeft(most), min(left, most); got != want {
				t.Errorf("%d of %d left: %d, want %d", most, left, got, want)
			}
		}
		if p.b.NextResponse(p.now, &p.d) != (left > 0) {
			t.Fatalf("with %d left", left)
		}
	}
}

// A clock that is set back takes the end of an RNR wait with it.
func TestSetBackInAnRNRWait(t *testing.T) {
	p := keeping(t, SendConfig{Timeout: 14})
	if _, err := p.a.PostSend(&Request{Op: ib.WRSend, Length: 1}); err != nil {
		t.Fatal(err)
	}
	p.now = 10 * units.Second
	if !p.a.NextRequest(p.now, &p.d) {
		t.Fatal("no request")
	}
	nak := Header{Opcode: ib.Acknowledge, PSN: p.d.Header.PSN, Syndrome: SyndromeRNR | 1}
	p.a.Receive(p.now, &nak, 0, &p.eff)
	p.a.SetBack(9 * units.Second)
	p.now -= 9 * units.Second
	over := p.now + RNRTime(1)
	if p.a.NextRequest(over-1, &p.d) {
		t.Error("it sends before the wait is over")
	}
	if !p.a.NextRequest(over, &p.d) {
		t.Error("it does not send when the wait is over")
	}
}
