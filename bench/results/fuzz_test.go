package results

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/internal/infile"
)

// Whatever a file of results holds, it is read or refused; what is read is written
// and read again as the same.
func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`{"version": 1, "results": [{"scenario": "x"}]}`))
	f.Add([]byte(`{"results": [null, {"systems": [{"label": null}]}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d *Document
		var err error
		infile.Within(t, func() { d, err = ReadJSON(bytes.NewReader(b)) })
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := WriteJSON(&first, d); err != nil {
			t.Fatal(err)
		}
		again, err := ReadJSON(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteJSON(&second, again); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%v\n%s\nthen\n%s", err, first.Bytes(), second.Bytes())
		}
	})
}
