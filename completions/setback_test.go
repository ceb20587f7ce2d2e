package completions

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Round trips that span a setting back of the clock are as long as without.
func TestSettingTheClockBackKeepsRoundTrips(t *testing.T) {
	table := NewTable(1, 8, 4)
	slot, _ := table.Add(Message{Opcode: ib.WRRDMAWrite})
	now := units.Time(0)
	var seqs []uint32
	for round := range 10 { // across the end of the ring
		for range 3 {
			now += units.Second
			seqs = append(seqs, table.Post(slot, 100, false, now))
		}
		table.SetBack(units.Time(round) * units.Second)
		now -= units.Time(round) * units.Second
		for i, seq := range seqs {
			var out Segment
			if !table.Complete(seq, &verbs.WC{}, &out) {
				t.Fatalf("segment %d is not known", seq)
			}
			if got, want := now-out.PostedAt, units.Time(2-i)*units.Second; got != want {
				t.Errorf("round %d: segment %d was posted %v ago, expected %v", round, i, got, want)
			}
		}
		seqs = seqs[:0]
	}
	table.Post(slot, 100, false, now)
	table.SetBack(units.Never)
	var out Segment
	if table.Complete(30, &verbs.WC{}, &out); out.PostedAt != units.LongAgo {
		t.Errorf("a segment of before any instant was posted at %v", out.PostedAt)
	}
}
