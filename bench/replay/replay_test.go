package replay_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

// recorded is a recording of a run on the model.
func recorded(t *testing.T, device, engine string, settings ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	rec := replay.NewRecorder(&file)
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	paced, err := perf.Pacing{Engine: engine, Settings: settings, Record: rec}.Wrap(dev)
	if err != nil {
		t.Fatal(err)
	}
	network, query, _ := strings.Cut(device, "/h0")
	peer, err := verbs.Open(network + "/h1" + query)
	if err != nil {
		t.Fatal(err)
	}
	test, err := perf.ParseTest("write_bw")
	if err != nil {
		t.Fatal(err)
	}
	cfg := perf.DefaultConfig(test)
	cfg.QPs, cfg.Iterations, cfg.GID = 3, 60, -1
	if _, err := perf.Pair(paced, peer, cfg); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(paced.Close(), peer.Close(), rec.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func engine(t *testing.T, name string, settings ...string) replay.Engine {
	t.Helper()
	s, err := cc.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := perf.EngineConfig(&s, settings)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Engine{Scheme: s, Config: config}
}

// An engine that is fed what it was told answers what it did, to the last bit.
func TestReplayIsWhatHappened(t *testing.T) {
	for _, c := range []struct{ device, engine string }{
		{"sim:replay/h0", "timely"},
		{"sim:replay2/h0?telemetry=per-hop", "powertcp"},
		{"sim:replay3/h0?telemetry=max-delay", "poseidon"},
	} {
		file := recorded(t, c.device, c.engine)
		r, err := replay.Run(bytes.NewReader(file), []replay.Engine{engine(t, c.engine)})
		if err != nil {
			t.Errorf("%s: %v", c.engine, err)
			continue
		}
		if r.Dropped > 0 {
			continue // the writer did not keep up with a loaded machine
		}
		if r.QueuePairs != 3 || r.Bytes != 3*60*65536 || r.Allowed[1].Same != 1 || r.Allowed[1].Apart != 0 {
			t.Errorf("%s: %d queue pairs, %d bytes, %+v", c.engine, r.QueuePairs, r.Bytes, r.Allowed)
		}
		t.Logf("%s: %d bytes for %d updates", c.engine, len(file), r.Updates)
	}
}

func TestReplayOfAnotherEngine(t *testing.T) {
	file := recorded(t, "sim:replay4/h0", "timely")
	r, err := replay.Run(bytes.NewReader(file), []replay.Engine{engine(t, "timely", "t_low=1us", "t_high=5us")})
	if err != nil {
		t.Fatal(err)
	}
	if r.Updates == 0 || r.Allowed[1].RateAvgGbps >= r.Allowed[0].RateAvgGbps || r.Allowed[1].Same == 1 {
		t.Errorf("with lower thresholds TIMELY allows no less: %+v", r.Allowed)
	}
	if _, err := replay.Run(bytes.NewReader(file), []replay.Engine{engine(t, "powertcp")}); err == nil || !strings.Contains(err.Error(), "per-hop telemetry") {
		t.Errorf("an engine without its telemetry: %v", err)
	}
	part, err := replay.Run(bytes.NewReader(file[:len(file)-1]), nil)
	if err != nil || !part.Truncated || part.Updates != r.Updates {
		t.Errorf("without its last byte: %+v, %v", part, err)
	}
	if _, err := replay.Run(io.LimitReader(bytes.NewReader(file), 4), nil); !errors.Is(err, replay.ErrCorrupt) {
		t.Errorf("four bytes: %v", err)
	}
}

// A recording of more queue pairs than a program could have is refused within limits of
// memory.
func TestManyQueuePairs(t *testing.T) {
	var file bytes.Buffer
	rec := replay.NewRecorder(&file)
	src, err := rec.Source(replay.Stream{Device: "d", Engine: "timely", Line: 100e9, Base: 10, MTU: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for qpn := range uint32(300_000) {
		for dropped := src.Dropped(); ; dropped = src.Dropped() {
			src.Record(qpn, &cc.Ack{Now: 1, RTT: 1, NetRTT: 1, Bytes: 1, Packets: 1, Scale: 1}, cc.Control{Rate: 1e9, Window: cc.Unlimited})
			if src.Dropped() == dropped {
				break
			}
			runtime.Gosched() // until it is written
		}
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if file.Len() > 8<<20 {
		t.Fatalf("%d bytes", file.Len())
	}
	infile.Within(t, func() {
		if _, err := replay.Run(&file, []replay.Engine{engine(t, "timely")}); err == nil || !strings.Contains(err.Error(), "queue pairs") {
			t.Errorf("%v", err)
		}
	})
}
