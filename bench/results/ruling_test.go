package results

import (
	"strings"
	"testing"
)

// A result of an earlier version says nothing of all this, and neither does its table.
func TestResultsOfEarlierVersions(t *testing.T) {
	const text = `{"results": [{"scenario": "old", "systems": [
		{"name": "PFC only", "engine": "none", "mode": "host", "throughput_gbps": 9.5, "bytes": 1000, "packet_hops": 4},
		{"name": "TIMELY", "engine": "timely", "mode": "host", "throughput_gbps": 9.5, "bytes": 1000, "packet_hops": 4},
		{"name": "PowerTCP", "engine": "powertcp", "mode": "offload", "throughput_gbps": 9.4, "bytes": 990, "packet_hops": 4}]}]}`
	d, err := ReadJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Table(&b, d.Results...); err != nil {
		t.Fatal(err)
	}
	for _, without := range []string{"goodput", "algbw", "no engine acted", "shim"} {
		if strings.Contains(b.String(), without) {
			t.Errorf("%q in\n%s", without, b.String())
		}
	}
	for _, with := range []string{"PFC only       none           9.50", "TIMELY         host           9.50", "PowerTCP        NIC           9.40", "PFC only, TIMELY: the same to the last digit\n"} {
		if !strings.Contains(b.String(), with) {
			t.Errorf("%q is missing in\n%s", with, b.String())
		}
	}
}

// What carries less than its link because its host's NIC pauses it is ruled by the receiver, unless another
// link is full.
func TestAReceiverRulesALinkThatIsBusyOrPaused(t *testing.T) {
	for _, c := range []struct {
		outside Outside
		want    string
	}{
		{Outside{Link: "tor0->h0", Busy: 0.617, PausedLink: "tor0->h0", Paused: 0.381}, "the receiver's NIC paused tor0->h0 38.1 % of the time: the receiver ruled"},
		{Outside{Link: "tor0->h0", Busy: 0.979, PausedLink: "tor0->h0", Paused: 0.02}, "tor0->h0 was busy 97.9 % of the time: the line rate ruled"},
		{Outside{Link: "tor0->h0", Busy: 0.3, PausedLink: "tor0->h0", Paused: 0.1}, "was busy 30.0 % of the time: the application posted no more"},
		{Outside{Link: "h1->tor0", Busy: 0.617, PausedLink: "tor0->h0", Paused: 0.381}, "the busiest link, h1->tor0, was busy 61.7 % of the time: the application posted no more"},
		{Outside{Link: "h1->tor0", Busy: 0.3, PausedLink: "tor0->h0", Paused: 0.5}, "the receiver's NIC paused tor0->h0 50.0 % of the time: the receiver ruled"},
	} {
		r := newRuling()
		r.EngineIn = EngineNone
		r.Explain(c.outside)
		if !strings.HasSuffix(r.RuledBy, c.want) {
			t.Errorf("%+v: %s, expected %s", c.outside, r.RuledBy, c.want)
		}
	}
}
