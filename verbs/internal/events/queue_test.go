package events

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

type qp struct {
	verbs.QP
	n int
}

// Events come in order, once each while they wait, and none of an object that is gone;
// what is kept is bounded by the objects there are.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var want []verbs.AsyncEvent
		objects := make([]verbs.QP, 4)
		for i := range objects {
			objects[i] = &qp{n: i}
		}
		types := []ib.EventType{ib.EventQPFatal, ib.EventQPAccessErr, ib.EventQPLastWQE}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := verbs.AsyncEvent{Type: rapid.SampledFrom(types).Draw(t, "type"), QP: rapid.SampledFrom(objects).Draw(t, "qp"), Port: 1}
				q.Add(e)
				if !slices.Contains(want, e) {
					want = append(want, e)
				}
			},
			"port": func(t *rapid.T) {
				e := verbs.AsyncEvent{Type: rapid.SampledFrom([]ib.EventType{ib.EventPortErr, ib.EventPortActive}).Draw(t, "state"), Port: 1}
				q.Add(e)
				want = append(slices.DeleteFunc(want, func(o verbs.AsyncEvent) bool { return o == e }), e)
			},
			"take": func(t *rapid.T) {
				e, ok := q.Take()
				if ok != (len(want) > 0) || ok && e != want[0] {
					t.Fatalf("took %v, %v, want the first of %v", e, ok, want)
				}
				if ok {
					want = want[1:]
				}
			},
			"destroy": func(t *rapid.T) {
				i := rapid.IntRange(0, len(objects)-1).Draw(t, "gone")
				gone := objects[i]
				q.Forget(verbs.AsyncEvent{QP: gone, Port: 1})
				want = slices.DeleteFunc(want, func(e verbs.AsyncEvent) bool { return e.QP == gone })
				objects[i] = &qp{n: i} // never the same again
			},
			"": func(t *rapid.T) {
				if q.Waiting() != (len(want) > 0) {
					t.Fatalf("waiting: %v, want %v", q.Waiting(), want)
				}
				if most := 2*(len(objects)*len(types)+2) + 1; len(q.order) > most {
					t.Fatalf("%d events are kept for %d objects", len(q.order), len(objects))
				}
			},
		})
	})
}
