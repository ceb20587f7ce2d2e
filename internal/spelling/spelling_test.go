package spelling

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"run", "rping", "report", "seed", "set", "timely", "t_low", "Segment", "k"}
	for typed, want := range map[string]string{
		"rn": "run", "urn": "run", "runn": "run", "sed": "seed", "timley": "timely", "TIMELY": "timely", "tlow": "t_low", "segmnt": "Segment",
		"foo": "", "x": "", "": "", "reproduce": "", "cubic": "",
	} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("%q: %q, expected %q", typed, got, want)
		}
	}
}

func TestMend(t *testing.T) {
	names := []string{"timely", "swift"}
	for typed, want := range map[string]string{"swfit": `is "swift" meant?`, "cubic": "take one of timely, swift"} {
		if got := Mend(typed, names); got != want {
			t.Errorf("%q: %s, expected %s", typed, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"flaw", "lawn", 2}} {
		if got := distance(x.a, x.b); got != x.want {
			t.Errorf("%q to %q: %d, expected %d", x.a, x.b, got, x.want)
		}
	}
}
