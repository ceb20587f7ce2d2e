package ratelimiter_test

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// Two flows with a queue each, one at twice the rate of the other, driven in
// simulated time: after each due time comes the next.
func Example() {
	s, err := ratelimiter.New(ratelimiter.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	const segment = 16 * units.KiB
	queues := make([]int, 2) // segments that each flow has yet to send
	for i, rate := range []units.Rate{10 * units.Gbps, 5 * units.Gbps} {
		flow, err := s.AddFlow(rate)
		if err != nil {
			fmt.Println(err)
			return
		}
		queues[flow] = 4 - 2*i
		s.Enqueue(0, flow, segment)
	}
	for s.Len() > 0 {
		now := s.NextDue()
		flow, ok := s.Dequeue(now)
		if !ok {
			continue // its rate had decreased: NextDue is later now
		}
		fmt.Println(now, "flow", flow)
		if queues[flow]--; queues[flow] > 0 {
			s.Enqueue(now, flow, segment)
		}
	}
	// Output:
	// 0s flow 0
	// 0s flow 1
	// 13.1072us flow 0
	// 26.2144us flow 1
	// 26.2144us flow 0
	// 39.3216us flow 0
}
