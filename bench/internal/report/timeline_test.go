package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// A timeline's bars lie behind each other and within the picture, the least of them wide
// enough to be seen; its table has what they show.
func TestTimeline(t *testing.T) {
	timeline := sampleTimeline()
	v := timeline.view()
	if math.Abs(v.Total-3e-6) > 1e-15 {
		t.Errorf("all takes %v s", v.Total)
	}
	share, from := 0.0, 0.0
	for i, row := range v.Rows {
		if math.Abs(row.From-from) > 1e-15 {
			t.Errorf("row %d begins at %v", i, row.From)
		}
		from += row.Took
		share += row.Share
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("shares add up to %v", share)
	}
	for i, want := range []string{`class="p0" x="0.0" width="83.3"`, `class="p1" x="83.3" width="500.0"`, `class="p2" x="583.3" width="4.0"`, `class="p1" x="583.3" width="416.7"`} {
		if !strings.Contains(string(v.Rows[i].Bar), want) {
			t.Errorf("bar %d is %s, want %s", i, v.Rows[i].Bar, want)
		}
	}
	var page bytes.Buffer
	if err := Write(&page, &Report{Runs: []Run{{Scenario: "s", Timelines: []Timeline{timeline}}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"One request of &lt;h0&gt;</h3>", "<p>3 us &amp; no more</p>", `<li><i class="p2"></i>&lt;h1&gt;</li>`,
		`<th scope="row">receive &amp; place</th>`, "<td>1.5 µs</td><td>50 %</td><td>250 ns</td><td class=\"text\">network</td>", "<td>3 µs</td>",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []TimelinePart{{"x", 3, 1}, {"x", -1, 1}, {"x", 0, -1}, {"x", 0, math.NaN()}} {
		err := Check(&Report{Runs: []Run{{Scenario: "s", Timelines: []Timeline{{Title: "life", Places: timeline.Places, Parts: []TimelinePart{bad}}}}}})
		if err == nil || !strings.Contains(err.Error(), `timeline "life", part 0`) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
