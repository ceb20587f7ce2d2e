package report

import (
	"encoding/json"
	"io"
	"math"
	"testing"
)

// A report that passes the check becomes a page. Of the page, what every one has is
// left out: it would take most of the time.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"Title":"t","Inputs":[{"Name":"a"}],"Runs":[{"Scenario":"x","Facts":[{"Name":"n","Value":"v"}],"Texts":[{"YAML":"a: 1"},{"Name":"b","YAML":"a: 2"}],"Columns":[{"Key":"k","Label":"l","Digits":1}],` +
		`"Systems":[{"Name":"A","Values":[1],"Parts":[{"Name":"p","Values":[2]}],"Plots":[{"Key":"rate","Unit":"bps","Series":[{"Label":"s","T":[0,1],"V":[2,3]}]}]}]}]}`))
	f.Add([]byte(`{"Runs":[{"Systems":[{"CDFs":[{"Key":"k","Lines":[{"Label":"l","Summary":true,"V":[1,2],"Share":[0.5,1]}]}],"Slowdowns":[{"Label":"all","Bins":[{"To":9,"Flows":1,"P50":1}]}]}]}]}`))
	f.Add([]byte(`{"Runs":[{"Systems":[{"Network":{"Nodes":[{"Name":"h"},{"Name":"s","Switch":true}],"Links":[{"Name":"h->s","To":1,"Rate":1,"Busy":0.5},{"Name":"s->h","From":1,"Rate":1,"Busy":1e300,"Queue":1}]}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Report
		if json.Unmarshal(text, &r) != nil {
			return
		}
		// JSON has no word for what was not measured.
		for i := range r.Runs {
			for j := range r.Runs[i].Systems {
				for k, v := range r.Runs[i].Systems[j].Values {
					if v < 0 {
						r.Runs[i].Systems[j].Values[k] = math.NaN()
					}
				}
			}
		}
		parts, err := partsOf(&r)
		if err != nil {
			return
		}
		if err := page.Execute(io.Discard, parts); err != nil {
			t.Error(err)
		}
	})
}
