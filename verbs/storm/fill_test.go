package storm

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// lyingCQ is a completion queue that changes what a Poll gives.
type lyingCQ struct {
	verbs.CQ
	lie func(wc []verbs.WC, n int, err error) (int, error)
}

func (c *lyingCQ) Poll(wc []verbs.WC) (int, error) {
	n, err := c.CQ.Poll(wc)
	return c.lie(wc, n, err)
}

// A filling finds what a completion queue gives that it must not, and what it does not give.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(wc []verbs.WC, n int, err error) (int, error)
		want string
	}{
		{"the truth", nil, ""},
		{"another completion", func(wc []verbs.WC, n int, err error) (int, error) {
			wc[0].WRID++
			return n, err
		}, "rule 22: a completion queue gives"},
		{"a completion is lost", func(_ []verbs.WC, n int, err error) (int, error) { return max(n-1, 0), err }, "rule 22: a completion queue that has"},
		{"no error", func(_ []verbs.WC, n int, _ error) (int, error) { return n, nil }, "and has overrun: true, gives 0"},
		// The event is of the queue below.
		{"no event", func(_ []verbs.WC, n int, err error) (int, error) { return n, err }, "rule 22: a completion queue that has overrun: true, of queue pairs that have lost by it"},
	} {
		r := program(t, nil, func(p *Process) error {
			w, err := newPeer(p)
			if err != nil {
				return err
			}
			for seed := range uint64(20) {
				w.fills = rand.New(rand.NewPCG(seed, 1))
				f := &filling{w: w, wc: make([]verbs.WC, 2)}
				if err := f.make(); err != nil {
					return err
				}
				if c.lie != nil {
					f.cq = &lyingCQ{f.cq, c.lie}
				}
				if err := f.run(); err != nil {
					return err
				}
				if err := f.free(); err != nil {
					return err
				}
			}
			return w.close()
		})
		if (c.want == "") != (r.Failure == "") || !strings.Contains(r.Failure, c.want) {
			t.Errorf("%s: %q, want %q", c.name, r.Failure, c.want)
		}
	}
}
