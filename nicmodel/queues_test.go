package nicmodel

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// drawQueues draws sizes from 1 on, and 0 for no bound.
func drawQueues(t *rapid.T, c *config.Config) {
	size := rapid.SampledFrom([]int{0, 1, 1, 2, 3, 8, 100})
	c.Queues = config.Queues{Doorbells: size.Draw(t, "doorbells"), Acks: size.Draw(t, "acks"), Completions: size.Draw(t, "completions")}
}

// checkQueues checks that no queue is longer than it may be.
func checkQueues(t *rapid.T, n *NIC) {
	waiting := 0
	for priority, k := range n.mac.controls {
		if most := n.chip.Config.Queues.Acks; k < 0 || most > 0 && k > most {
			t.Fatalf("h%d has %d acknowledgements of priority %d before the wire, which has room for %d", n.chip.Host, k, priority, most)
		}
		waiting += k
	}
	if d, most := &n.doorbell, n.chip.Config.Queues.Doorbells; most > 0 && d.stores.onWay+int(d.backlog(n.chip.Engine.Now())) > most {
		t.Fatalf("h%d has %d stores on their way and %d in it, and room for %d", n.chip.Host, d.stores.onWay, d.backlog(n.chip.Engine.Now()), most)
	} else if waits := len(d.stores.waiting) - d.stores.head; waits > 0 && d.stores.onWay == 0 && d.backlog(n.chip.Engine.Now()) == 0 && d.stores.wakeAt == units.Never {
		t.Fatalf("h%d has room, and %d stores wait", n.chip.Host, waits)
	}
	if waiting > 0 && n.mac.backlogged == 0 {
		t.Fatalf("h%d counts %d acknowledgements before the wire, and none waits", n.chip.Host, waiting)
	}
}

// longestQueue returns how many were in a queue at most, by when each came to it and left.
func longestQueue(came, left []units.Time) (most int) {
	for i := range came {
		k := 0
		for j := 0; j <= i; j++ {
			if left[j] > came[i] {
				k++
			}
		}
		most = max(most, k)
	}
	return most
}

// While the wire is paused, acknowledgements wait for it: no more than there is room for. A queue pair owes the others, and
// once the wire goes on, one acknowledges for all.
func TestAcknowledgementsThatWaitAreBounded(t *testing.T) {
	for _, most := range []int{1, 4, 0} {
		cfg := preset(t, "cx5")
		cfg.Queues.Acks = most
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		server := b.nics[1]
		var done []*units.Bytes
		for range 8 {
			x, y := b.connect(0, 1, [2]Congestion{}, rc.SendConfig{Timeout: 14, RetryCount: 7, RNRRetry: 7, AckReqEvery: 1}, 1024)
			done = append(done, b.keep(x, y, ib.WRRDMAWrite, 64, 32))
		}
		server.mac.pause(0, 0xff)
		b.e.RunUntil(100 * units.Microsecond)
		held := server.mac.controls[0]
		switch {
		case most > 0 && held != most:
			t.Errorf("%d acknowledgements wait, and there is room for %d", held, most)
		case most == 0 && held != 8*32:
			t.Errorf("%d acknowledgements of %d packets wait", held, 8*32)
		}
		server.mac.pause(b.e.Now(), 0)
		b.e.RunUntil(b.e.Now() + 20*units.Microsecond)
		for i, n := range done {
			if *n < 64*32 {
				t.Errorf("with room for %d, queue pair %d got %d bytes acknowledged", most, i, *n)
			}
		}
	}
}

// Completions wait for a slow link, no more than there is room for: those of unreliable Writes, which nothing answers, hold
// their NIC's scheduler up.
func TestCompletionsThatWaitAreBounded(t *testing.T) {
	for _, most := range []int{1, 16, 0} {
		cfg := preset(t, "cx5")
		cfg.PCIe.PostedCredits, cfg.PCIe.PostedData, cfg.PCIe.PostedHold = 1, 0, 500*units.Nanosecond // 2 million writes a second
		cfg.Queues.Completions = most
		b := newBed(t, 2, 100*units.Gbps, cfg, lossy)
		// When each is made and when it has left. The NIC writes nothing else.
		var made, left []units.Time
		b.nics[0].OnSpan(func(s *chip.Span) {
			switch s.Place {
			case chip.AtCQE:
				made = append(made, s.End)
			case chip.AtCQEWrite:
				left = append(left, s.End-cfg.PCIe.WriteLatency)
			}
		})
		for range 4 {
			x, y := b.connectType(ib.UC, 0, 1, [2]Congestion{}, rc.SendConfig{}, 1024)
			rr, _ := y.nic.RegMR(y.pd, nil, 1<<20, ib.AccessLocalWrite|ib.AccessRemoteWrite)
			for range 64 {
				b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 8, RemoteAddr: rr.Addr, RKey: rr.Key}, Inline: make([]byte, 8)})
			}
		}
		b.e.RunUntil(units.Second)
		if len(made) != 256 || len(left) != 256 {
			t.Fatalf("%d made, %d written", len(made), len(left))
		}
		longest := longestQueue(made, left)
		if most > 0 && longest > most || most == 0 && longest < 200 {
			t.Errorf("%d completions waited, and there is room for %d", longest, most)
		}
		stall := b.nics[0].completions.Account(b.e.Now()).Stalled[stage.StallPCIe]
		if held := b.nics[0].scheduler.Stage.Account(b.e.Now()).Stalled[stage.StallPCIe]; (most > 0) != (stall > 0) || (most > 0) != (held > 0) {
			t.Errorf("with room for %d, stage cqe stalled for %d cycles and the scheduler for %d", most, stall, held)
		}
	}
}

// Stores that find no room in the NIC wait in the host, and come as there is.
func TestDoorbellsThatWaitAreBounded(t *testing.T) {
	for _, most := range []int{1, 8, 0} {
		cfg := preset(t, "cx5")
		cfg.DoorbellCycles = 50 // 100 ns
		cfg.Queues.Doorbells = most
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		n := b.nics[0]
		var came, served []units.Time
		n.OnSpan(func(s *chip.Span) {
			switch s.Place {
			case chip.AtStore:
				came = append(came, s.End)
			case chip.AtDoorbell:
				served = append(served, s.End)
			}
		})
		const pairs = 40
		for range pairs {
			x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
			rr, _ := y.nic.RegMR(y.pd, nil, 1<<20, ib.AccessLocalWrite|ib.AccessRemoteWrite)
			b.post(x, WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 8, RemoteAddr: rr.Addr, RKey: rr.Key}, Inline: make([]byte, 8)})
		}
		b.e.RunUntil(units.Second)
		if len(came) != pairs || len(served) != pairs {
			t.Fatalf("%d came, %d served", len(came), len(served))
		}
		longest := longestQueue(came, served)
		if most > 0 && longest != most || most == 0 && longest < pairs-5 {
			t.Errorf("%d stores waited, and there is room for %d", longest, most)
		}
	}
}
