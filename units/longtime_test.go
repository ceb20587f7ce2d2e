package units

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const year = 365 * 24 * time.Hour

func TestLongTimeReachesPastTime(t *testing.T) {
	start := Long(10 * year).Add(3)
	for _, by := range []Time{0, 1500, -5, 100 * 24 * 3600 * Second, -100 * 24 * 3600 * Second} {
		end := start.Add(by)
		if got := end.Sub(start); got != by {
			t.Errorf("%v later is %v later", by, got)
		}
		if end.Before(start) != (by < 0) || start.Before(end) != (by > 0) {
			t.Errorf("%v later: the order is wrong", by)
		}
	}
	if got := start.Sub(LongTime{}); got != Never {
		t.Errorf("ten years are %v", got)
	}
	if got := (LongTime{}).Sub(start); got != -Never {
		t.Errorf("minus ten years are %v", got)
	}
	if LongNever.String() != "never" || Never.Long() != LongNever || start.String() != "87600h0m0s" || Time(1500).Long().String() != "1.5ns" {
		t.Errorf("printed %v, %v, %v, %v", LongNever, Never.Long(), start, Time(1500).Long())
	}
}

// LongTime's arithmetic is that of whole numbers.
func TestLongTimeArithmetic(t *testing.T) {
	exact := func(l LongTime) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(l.hi), 64)
		return n.Add(n, new(big.Int).SetUint64(l.lo))
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) LongTime {
			l := Long(time.Duration(rapid.Int64Range(math.MinInt64/4, math.MaxInt64/4).Draw(t, name)))
			return l.Add(Time(rapid.Int64().Draw(t, name+" and")))
		}
		a, b := draw("a"), draw("b")
		d := Time(rapid.Int64().Draw(t, "span"))
		if got, want := exact(a.Add(d)), new(big.Int).Add(exact(a), big.NewInt(int64(d))); got.Cmp(want) != 0 {
			t.Fatalf("Add: %v, expected %v", got, want)
		}
		if got, want := exact(a.Plus(b)), new(big.Int).Add(exact(a), exact(b)); got.Cmp(want) != 0 {
			t.Fatalf("Plus: %v, expected %v", got, want)
		}
		diff := new(big.Int).Sub(exact(a), exact(b))
		if got := exact(a.Minus(b)); got.Cmp(diff) != 0 {
			t.Fatalf("Minus: %v, expected %v", got, diff)
		}
		switch got := a.Sub(b); {
		case got == Never || got == -Never:
			if diff.IsInt64() && diff.Int64() != int64(got) {
				t.Fatalf("Sub: %v, expected %v", got, diff)
			}
		case diff.Cmp(big.NewInt(int64(got))) != 0:
			t.Fatalf("Sub: %v, expected %v", got, diff)
		}
		if a.Before(b) != (diff.Sign() < 0) {
			t.Fatalf("Before: %v", a.Before(b))
		}
		for _, l := range []LongTime{a, b, d.Long(), a.Minus(b), LongTime{}.Minus(b)} {
			if l == LongNever {
				continue
			}
			ns := new(big.Int)
			ns.DivMod(exact(l), big.NewInt(1000), new(big.Int))
			if got := int64(l.Duration()); ns.IsInt64() && got != ns.Int64() {
				t.Fatalf("Duration: %v, expected %v", got, ns)
			}
			want, _ := new(big.Float).SetInt(exact(l)).Float64()
			if got := l.Picoseconds(); math.Abs(got-want) > math.Abs(want)*1e-15 {
				t.Fatalf("Picoseconds: %v, expected %v", got, want)
			}
		}
		near := a.Add(d % (80 * 24 * 3600 * Second))
		if got := near.Sub(a); got != d%(80*24*3600*Second) {
			t.Fatalf("%v later is %v later", d, got)
		}
	})
}

func TestSetBack(t *testing.T) {
	const day = 24 * 3600 * Second
	for _, c := range []struct{ t, by, want Time }{
		{0, 0, 0}, {day, day, 0}, {day, 2 * day, -day}, {Never, day, Never},
		{-day, MostSetBack, LongAgo}, {0, MostSetBack, LongAgo}, {-LongAgo, MostSetBack, LongAgo}, {day, Never, LongAgo},
		{LongAgo, day, LongAgo}, {math.MinInt64, day, math.MinInt64}, {-Never, Never, -Never},
		{100 * day, 30 * day, 70 * day}, {Never - 1, day, Never - 1 - day},
	} {
		if got := c.t.SetBack(c.by); got != c.want {
			t.Errorf("%v set back by %v is %v, expected %v", c.t, c.by, got, c.want)
		}
	}
}
