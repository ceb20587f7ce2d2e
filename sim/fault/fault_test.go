package fault

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/units"
)

func TestScheduleReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Storm{
			Hosts:   rapid.IntRange(1, 5).Draw(t, "hosts"),
			Span:    units.Time(rapid.Int64Range(1, int64(units.Second)).Draw(t, "span")),
			Packets: rapid.Uint64Range(0, 500).Draw(t, "packets"),
		}
		want := c.Draw(rapid.Uint64().Draw(t, "seed"))
		if err := want.Check(c.Hosts); err != nil {
			t.Fatal(err)
		}
		got, err := ParseSchedule(strings.NewReader("# a comment\n\n" + want.String()))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v is read as %v", want, got)
		}
	})
}

func TestBadSchedules(t *testing.T) {
	for text, want := range map[string]string{
		"flood 0>1 #3":                   `line 1: "flood 0>1 #3": unknown kind, expected one of drop,`,
		"drop 0>1":                       "expected the packet's number, such as #17",
		"drop 0 #3":                      `the receiver is "", expected a number from 0 on`,
		"drop x>1 #3":                    `the sender is "x"`,
		"drop 0>1 #3 please":             `"please" is too much`,
		"\ncrash 0 in 5us for 2us":       `line 2: "crash 0 in 5us for 2us": expected "at", got "in"`,
		"crash 0 at soon for 2us":        `soon`,
		"crash 0 at 5us":                 `expected "for", got ""`,
		"stall 0 at 5us for -2us":        "a negative time",
		"corrupt 0>1 #3 bit 4294967296":  "a number of 32 bits",
		"drift 0 ppm 501":                "expected -500 to 500",
		"drift 0 ppm NaN":                "expected -500 to 500",
		"partition 0 at 1us for 2us":     `the other host is ""`,
		"step 0 at 1us by":               "time",
		strings.Repeat("x", 5000) + "\n": "token too long",
	} {
		if _, err := ParseSchedule(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"drop 0>2 #1", "drop 1>1 #1", "partition 0|0 at 1us for 1us", "crash 2 at 1us for 1us"} {
		s, err := ParseSchedule(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(2); err == nil || !strings.Contains(err.Error(), "there are processes 0 to 1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add(Storm{Hosts: 3, Span: units.Millisecond, Packets: 50, Forge: true}.Draw(1).String())
	f.Add("drop 0>1 #3\ncorrupt 1>0 #2 bit 7\nstep 0 at 1us by -5ns\n")
	f.Fuzz(func(t *testing.T, text string) {
		var s Schedule
		var err error
		infile.Within(t, func() { s, err = ParseSchedule(strings.NewReader(text)) })
		if err != nil {
			return
		}
		again, err := ParseSchedule(strings.NewReader(s.String()))
		if err != nil || !slices.Equal(s, again) {
			t.Errorf("%q: read as %v, and that as %v, %v", text, s, again, err)
		}
		_ = s.Check(4)
	})
}

func TestWire(t *testing.T) {
	us := units.Microsecond
	s := Schedule{
		{Kind: Delay, A: 0, B: 1, Packet: 2, For: 3 * us},
		{Kind: Drop, A: 0, B: 1, Packet: 0},
		{Kind: Mark, A: 0, B: 1, Packet: 2},
		{Kind: Corrupt, A: 1, B: 0, Packet: 1, Bit: 9},
		{Kind: Duplicate, A: 1, B: 0, Packet: 2, For: us},
		{Kind: Partition, A: 0, B: 1, At: 10 * us, For: 5 * us},
		{Kind: Crash, A: 0, At: us, For: us},
	}
	w := s.Wire(3)
	for i, step := range []struct {
		now      units.Time
		from, to int
		want     Fate
	}{
		{0, 0, 1, Fate{Drop: true}},
		{0, 0, 1, Fate{}},
		{0, 1, 0, Fate{}},
		{0, 0, 2, Fate{}},
		{0, 0, 1, Fate{Delay: 3 * us, Mark: true}},
		{0, 1, 0, Fate{Corrupt: true, Bit: 9}},
		{9 * us, 1, 0, Fate{Duplicate: true, Delay: us}},
		{10 * us, 1, 0, Fate{Drop: true}},
		{14 * us, 0, 1, Fate{Drop: true}},
		{14 * us, 0, 2, Fate{}},
		{15 * us, 0, 1, Fate{}},
	} {
		if got := w.Carry(step.now, step.from, step.to); got != step.want {
			t.Errorf("packet %d: %+v, want %+v", i, got, step.want)
		}
	}
}

// Shrink finds just what a failure needs.
func TestShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "faults")
		var s Schedule
		needed := map[uint64]bool{}
		for i := range n {
			s = append(s, Fault{Packet: uint64(i), B: 1})
			if rapid.IntRange(0, 9).Draw(t, "needed") == 0 {
				needed[uint64(i)] = true
			}
		}
		tries := 0
		least := s.Shrink(10_000, func(s Schedule) bool {
			tries++
			n := 0
			for _, f := range s {
				if needed[f.Packet] {
					n++
				}
			}
			return n == len(needed)
		})
		if len(least) != len(needed) {
			t.Fatalf("%d faults are left of %d, and %d are needed", len(least), n, len(needed))
		}
		if tries > 10_000 {
			t.Fatalf("%d tries", tries)
		}
	})
	if got := (Schedule{{}, {}}).Shrink(0, func(Schedule) bool { panic("no try is left") }); len(got) != 2 {
		t.Errorf("without a try %d faults are left", len(got))
	}
}

// Seeds differ, and are the same each time.
func TestDraw(t *testing.T) {
	c := Storm{Hosts: 3, Span: 10 * units.Millisecond, Packets: 1000, Forge: true}
	kinds, seen := [kinds]int{}, map[string]bool{}
	for seed := range uint64(200) {
		s := c.Draw(seed)
		if !slices.Equal(s, c.Draw(seed)) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		seen[s.String()] = true
		for _, f := range s {
			kinds[f.Kind]++
			if f.Kind.timed() && f.At >= c.Span || f.Kind.ofPacket() && f.Packet >= c.Packets {
				t.Errorf("seed %d: %v is too late", seed, f)
			}
		}
	}
	if len(seen) < 195 {
		t.Errorf("200 seeds give %d schedules", len(seen))
	}
	for k, n := range kinds {
		if n == 0 {
			t.Errorf("no %v", Kind(k))
		}
	}
}
