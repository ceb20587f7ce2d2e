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
