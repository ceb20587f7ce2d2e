package nicvalidate

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// A thread does one thing at a time, posts first, and two threads go on side by side.
func TestThreadsTakeTime(t *testing.T) {
	e := des.New()
	on := newThreads(&host{engine: e}, 2)
	type did struct {
		what string
		at   units.Time
	}
	var got []did
	note := func(what string) func() { return func() { got = append(got, did{what, e.Now()}) } }
	on.poll(0, note("poll"))
	on.poll(0, note("second poll"))
	on.post(0, func() {
		note("post")()
		on.post(0, note("post after it"))
	})
	on.post(1, note("the other's"))
	e.RunUntil(units.Microsecond)
	at := pollTime + postTime
	want := []did{{"poll", pollTime}, {"the other's", postTime}, {"post", at}, {"post after it", at + postTime}, {"second poll", at + postTime + pollTime}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A load by rounds has the rate of its thread, however long its rounds are: with four times the queue pairs, four times.
func TestLongRoundsHaveTheRateOfShortOnes(t *testing.T) {
	rate := func(queues int) float64 {
		cfg, err := preset("cx6")
		if err != nil {
			t.Fatal(err)
		}
		l := blindLoad{
			service: ib.RC, op: ib.WRRDMAWrite, payload: 64, machines: 2, queues: queues, threads: 1, window: 32, signal: 32, rounds: true,
			mtu: 1024, direct: true, link: fabric.Link{Rate: 200 * units.Gbps, Delay: cable}, nics: []nicmodel.Config{cfg},
		}
		v, err := l.run()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	thread := 1 / (postTime + pollTime/32).Microseconds()
	for _, queues := range []int{64, 256} { // rounds of 0.3 and 1.2 ms
		if got := rate(queues); got > thread || got < 0.97*thread {
			t.Errorf("%d queue pairs: %.2f M/s, want %.2f of the thread", queues, got, thread)
		}
	}
}
