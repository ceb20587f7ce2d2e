package bench

import (
	"bytes"
	"github.com/sluice-rdma/sluice/bench/results"
	"strings"
	"testing"
	"time"
)

// Following requests changes nothing, and the page has them as a picture and a table.
func TestOperationsAreShown(t *testing.T) {
	sets := []string{"workloads[0].connections=2", "duration=140us"}
	r := run(t, load(t, "nic-small-writes", sets...))
	without := run(t, load(t, "nic-small-writes", append(sets, "measure.nic=[h1]")...))
	if a, b := r.Systems[0], without.Systems[0]; a.Bytes != b.Bytes || a.Events != b.Events {
		t.Errorf("followed: %d bytes, %d events; not followed: %d and %d", a.Bytes, a.Events, b.Bytes, b.Events)
	}
	var table, page bytes.Buffer
	if err := results.Table(&table, r); err != nil {
		t.Fatal(err)
	}
	if want := "h0's NIC: the median of "; !strings.Contains(table.String(), want) {
		t.Errorf("no %q in\n%s", want, table.String())
	}
	d := results.NewDocument(time.Unix(0, 0), nil)
	d.Results = append(d.Results, r)
	if err := results.WriteHTML(&page, d); err != nil {
		t.Fatal(err)
	}
	o := nicOf(t, r.Systems[0], "h0").Operations[0]
	for _, want := range []string{"One request of h0: the median of", "percentile 99 of", `<th scope="row">doorbell store</th>`, `<td class="text">h1</td>`, "in one packet."} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page.String(), `<svg class="bar"`); n < 2*len(o.Parts)-4 {
		t.Errorf("%d bars for parts of two requests of about %d each", n, len(o.Parts))
	}
}
