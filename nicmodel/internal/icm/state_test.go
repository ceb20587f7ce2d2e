package icm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Reads of one entry merge, as many are under way as may be, and what is displaced is read again.
func TestStateNeedByHand(t *testing.T) {
	cfg, err := config.Preset("cx5")
	if err != nil {
		t.Fatal(err)
	}
	cfg.State = config.State{Bytes: pcie.CacheLine, Ways: 1, Fetches: 1, Context: 64}
	link, err := pcie.New(cfg.PCIe)
	if err != nil {
		t.Fatal(err)
	}
	s := New(&chip.Chip{Engine: des.New(), Config: cfg, Link: link}, func(func(at uint64, bytes int, own bool)) {})
	const other, keyBytes = ContextTable + 64, 64
	s.Write(ContextTable, 64)
	if s.Full() {
		t.Fatal("one context does not fit")
	}
	s.Write(other, 64)
	if !s.Full() {
		t.Fatal("two contexts fit")
	}
	if ready, _ := s.Need(0, EntryContext, ContextTable, ContextTable, 64); ready != 0 {
		t.Errorf("the first context is there at %v", ready)
	}
	one := link.Alone(64)
	first, free := s.Need(0, EntryContext, other, other, 64)
	if first != one || free != 0 {
		t.Errorf("the second is there at %v, its read begins at %v, want %v and 0", first, free, one)
	}
	if got := link.Traffic(pcie.Upstream, pcie.MemWr, pcie.ForContext).Packets; got != 1 {
		t.Errorf("%d lines written back, want the first context's", got)
	}
	if again, _ := s.Need(one/2, EntryContext, other, other, 64); again != first {
		t.Errorf("while it is being read, it is there at %v, want %v", again, first)
	}
	// One at a time: the next one waits for that read.
	ready, free := s.Need(one/2, EntryKey, KeyTable+keyBytes, KeyTable+keyBytes, keyBytes)
	if want := first + link.Alone(keyBytes); free != first || ready != want {
		t.Errorf("the key is there at %v, its read begins at %v, want %v and %v", ready, free, want, first)
	}
	// It took the place of the context, which is read again.
	before := link.Crossed(pcie.Downstream)[pcie.ForContext.String()]
	s.Need(ready, EntryContext, other, other, 64)
	if got, want := link.Crossed(pcie.Downstream)[pcie.ForContext.String()]-before, before; got != want {
		t.Errorf("%d bytes read, want %d as for all of it", got, want)
	}
	if u := s.uses[EntryContext]; u.hits != 2 || u.misses != 2 || s.uses[EntryKey].misses != 1 {
		t.Errorf("%+v", s.uses)
	}
}

// By hand, in a memory of one way and one set: what is new goes in, and dirty lines are written back.
func TestLineCacheByHand(t *testing.T) {
	l := newLineCache(1, 1)
	for i, x := range []struct {
		at        uint64
		dirty     bool
		hit       bool
		displaced uint64
	}{
		{at: 64, dirty: true}, {at: 64, hit: true}, {at: 128, displaced: 64}, {at: 192}, // 128 was clean
		{at: 64}, {at: 64, hit: true, dirty: true}, {at: 128, displaced: 64},
	} {
		slot, hit, displaced := l.touch(x.at, x.dirty)
		if hit != x.hit || displaced != x.displaced || slot.at&^dirtyLine != x.at || l.find(x.at) != slot {
			t.Fatalf("%d: line %d: hit %v, displaced %d; want %+v", i, x.at, hit, displaced, x)
		}
	}
	l.remove(64)
	if l.find(128) == nil {
		t.Error("not the line that was removed is gone")
	}
	if l.remove(128); l.find(128) != nil {
		t.Error("the line that was removed is there")
	}
}

// Lines that are used in turns, a quarter more than fit: some are still there when their turn comes, and the more the fewer there are.
func TestLinesBeyondTheRoom(t *testing.T) {
	const room = 1024
	hits := func(lines int) (share float64) {
		l := newLineCache(room, 8)
		n := 0
		const rounds = 40
		for round := range rounds {
			for i := range lines {
				if _, hit, _ := l.touch(uint64(i+1)*pcie.CacheLine, false); hit && round >= rounds/2 {
					n++
				}
			}
		}
		return float64(n) / float64(lines*rounds/2)
	}
	last := 1.0
	for _, lines := range []int{room / 2, room, room * 5 / 4, room * 3 / 2, 2 * room} {
		h := hits(lines)
		t.Logf("%d lines in %d: %.2f", lines, room, h)
		if h > last || h < last/3 {
			t.Errorf("%d lines in %d: %.2f are there in their turn, %.2f of fewer", lines, room, h, last)
		}
		last = h
	}
}

// Entries of four lines stay and go as a whole: of those used in turns as many are there as of single lines.
func TestEntriesStayWhole(t *testing.T) {
	const room, rounds = 1024, 40
	hits := func(lines int) (share float64) {
		l := newLineCache(room, 8)
		entries, n := room*3/2/lines, 0
		for round := range rounds {
			for i := range entries {
				whole := true
				for k := range lines {
					_, hit, _ := l.touch(uint64((i+1)*entryLines+k)*pcie.CacheLine, false)
					whole = whole && hit
				}
				if whole && round >= rounds/2 {
					n++
				}
			}
		}
		return float64(n) / float64(entries*rounds/2)
	}
	one, four := hits(1), hits(entryLines)
	t.Logf("%.2f of lines and %.2f of entries are there in their turn", one, four)
	if four < 0.8*one {
		t.Errorf("%.2f of entries are there in their turn, %.2f of lines", four, one)
	}
}

// A cache of sets is lists, one a set, of which each has lines that were used: all that were, or as many as there are ways.
func TestLineCacheAgainstLists(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ways := rapid.IntRange(1, 8).Draw(r, "ways")
		l := newLineCache(ways*rapid.IntRange(1, 5).Draw(r, "sets"), ways)
		lists := map[*line][]uint64{} // by set
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			at := uint64(rapid.IntRange(1, 40).Draw(r, "line")) * pcie.CacheLine
			set := &l.set(at)[0]
			had := slices.Index(lists[set], at)
			if had >= 0 {
				lists[set] = slices.Delete(lists[set], had, had+1)
			}
			if rapid.IntRange(0, 4).Draw(r, "remove") == 0 {
				l.remove(at)
				continue
			}
			if _, hit, _ := l.touch(at, false); hit != (had >= 0) {
				r.Fatalf("line %d hit: %v", at, hit)
			}
			if before := len(lists[set]); before == ways { // one of them went
				lists[set] = slices.DeleteFunc(lists[set], func(at uint64) bool { return l.find(at) == nil })
				if len(lists[set]) != before-1 {
					r.Fatalf("%d lines of %d went for one", before-len(lists[set]), before)
				}
			}
			lists[set] = append(lists[set], at)
		}
		held := 0
		for _, list := range lists {
			for _, at := range list {
				if held++; l.find(at) == nil {
					r.Fatalf("line %d is not there", at)
				}
			}
		}
		for _, x := range l.all {
			if x.at != 0 {
				held--
			}
		}
		if held != 0 {
			r.Fatalf("%d lines fewer than in the lists", held)
		}
	})
}

func TestUsedElementsByHand(t *testing.T) {
	var u usedElements
	for i := range 40 { // it grows
		u.add(units.Time(i/2), uint64(i), 1)
	}
	u.add(3, 40, 1) // not before its predecessors
	for i := range 41 {
		until := units.Time(min(i, 39) / 2)
		if e := u.next(until - 1); e != nil {
			t.Fatalf("%d: %+v before its time", i, e)
		}
		if e := u.next(until); e == nil || e.at != uint64(i) {
			t.Fatalf("%d: %+v at %d", i, e, until)
		}
	}
	if u.next(units.Never) != nil {
		t.Error("more than was put in")
	}
}
