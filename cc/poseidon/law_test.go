package poseidon

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The paper's parameters, in picoseconds and bits per second.
const (
	paperP, paperK     = 40e6, 2e6
	paperMin, paperMax = 0.02e9, 200e9
)

func paperLaw(m float64) law { return newLaw(paperP, paperK, m, paperMin, paperMax) }

// drawLaw also returns equations 3 and 4 restated with the standard library.
func drawLaw(t *rapid.T) (l law, target func(rate float64) float64, update func(rate, delay float64) float64) {
	p := rapid.Float64Range(1e6, 1e9).Draw(t, "p")
	// k beyond p would take U out of the range of floating point.
	k := p * rapid.Float64Range(0.001, 1).Draw(t, "k over p")
	m := rapid.OneOf(rapid.Just(0.25), rapid.Float64Range(0.01, 1.99)).Draw(t, "m")
	minRate := rapid.Float64Range(1e6, 1e9).Draw(t, "min rate")
	maxRate := minRate * rapid.Float64Range(10, 1e5).Draw(t, "max rate over min rate")
	target = func(rate float64) float64 {
		return p*(math.Log(maxRate)-math.Log(rate))/(math.Log(maxRate)-math.Log(minRate)) + k
	}
	update = func(rate, delay float64) float64 {
		alpha := math.Log(maxRate) - math.Log(minRate)
		return math.Exp((target(rate) - delay) / p * alpha * m)
	}
	return newLaw(p, k, m, minRate, maxRate), target, update
}

func drawRate(t *rapid.T, l *law, name string) float64 {
	return l.minRate * math.Pow(l.maxRate/l.minRate, rapid.Float64Range(0, 1).Draw(t, name))
}

// update is U as receiveACK takes it.
func (l *law) update(rate, delay float64) float64 {
	if l.quarter {
		return l.quarterRatio(rate, delay)
	}
	return l.distanceRatio(rate, delay, 0)
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*(1+math.Abs(want)) }

func TestEquations3And4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, target, update := drawLaw(t)
		rate := drawRate(t, &l, "rate")
		delay := rapid.Float64Range(0, 3*(l.p+l.k)).Draw(t, "delay")
		if got, want := l.target(rate), target(rate); !near(got, want) {
			t.Fatalf("T(%v) = %v, want %v", rate, got, want)
		}
		if got, want := l.update(rate, delay), update(rate, delay); !near(got, want) {
			t.Fatalf("U(T(%v), %v) = %v, want %v", rate, delay, got, want)
		}
	})
}

// Reading notes: T(max_rate) is k = 2 us, T(min_rate) is p + k = 42 us, and
// T(a) - T(c a) = p ln(c)/ln(max/min), not section 3.3's ln(c)/p.
func TestTargetsOfThePaper(t *testing.T) {
	l := paperLaw(0.25)
	for rate, want := range map[float64]float64{
		200e9: 2e6, 0.02e9: 42e6, 2e9: 22e6, // the geometric mean is half way
		400e9: 2e6, 1: 42e6, 0: 42e6, // beyond the ends
	} {
		if got := l.target(rate); math.Abs(got-want) > 1 {
			t.Errorf("T(%v) = %v ps, want %v", rate, got, want)
		}
	}
	for _, a := range []float64{0.02e9, 1e9, 50e9} {
		const c = 4
		if got, want := l.target(a)-l.target(c*a), 40e6*math.Log(c)/math.Log(200/0.02); math.Abs(got-want) > 1 {
			t.Errorf("T(%v) - T(%v) = %v, want %v wherever they lie", a, c*a, got, want)
		}
	}
}

// Equation 1: U is at least one exactly where the delay is at most the target.
func TestEquation1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, target, _ := drawLaw(t)
		rate := drawRate(t, &l, "rate")
		delay := rapid.Float64Range(0, 3*(l.p+l.k)).Draw(t, "delay")
		const rounding = 1e-3 // ps
		u := l.update(rate, delay)
		if d := target(rate) - delay; d > rounding && u < 1 || d < -rounding && u >= 1 {
			t.Fatalf("target %v, delay %v, but U = %v", target(rate), delay, u)
		}
	})
}

// Equation 2: for any two flows, the faster one gains less, and not so much
// less that they change places; so that fairness improves with every update.
func TestEquation2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, _, _ := drawLaw(t)
		a, b := drawRate(t, &l, "a"), drawRate(t, &l, "b")
		a, b = min(a, b), max(a, b)
		if b/a < 1+1e-6 {
			t.Skip("equation 2 is about different rates, and these are equal but for rounding")
		}
		delay := rapid.Float64Range(0, 3*(l.p+l.k)).Draw(t, "delay")
		got := l.update(b, delay) / l.update(a, delay)
		if got >= 1 || got <= (a*a)/(b*b) {
			t.Fatalf("U(b)/U(a) = %v for a = %v, b = %v, not within (a/b)^2 and 1", got, a, b)
		}
		// Equation 11: it is (a/b)^m.
		if want := math.Pow(a/b, l.m); !near(got, want) {
			t.Fatalf("U(b)/U(a) = %v, want (a/b)^m = %v", got, want)
		}
	})
}

// Equation 5: with r the rate whose target the delay is, U(x) = (r/x)^m. At m = 1
// one step reaches r; the smaller m, the more steps: a larger m is faster,
// against what the text below equation 4 says.
func TestEquation5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, target, _ := drawLaw(t)
		r, x := drawRate(t, &l, "r"), drawRate(t, &l, "x")
		if got, want := l.update(x, target(r)), math.Pow(r/x, l.m); !near(got, want) {
			t.Fatalf("U(%v) at the delay T(%v) is %v, want %v", x, r, got, want)
		}
	})
	steps := func(m float64) (n int) {
		l := paperLaw(m)
		for x := 1e9; x < 0.95*50e9; x *= l.update(x, l.target(50e9)) {
			n++
		}
		return n
	}
	if steps(1) != 1 || steps(0.25) <= steps(0.5) || steps(0.5) <= steps(1) {
		t.Errorf("from 1 to 50 Gbps in %d steps at m = 1, %d at 0.5, %d at 0.25", steps(1), steps(0.5), steps(0.25))
	}
	// Figure 7a: about 15 round trips.
	if n := steps(0.25); n < 12 || n > 18 {
		t.Errorf("from 1 to 50 Gbps in %d steps, Figure 7a shows about 15", n)
	}
}
