package perf

import (
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// recording takes the engine updates of one device to a recorder. The stream
// begins with the first update, which knows the path MTU.
type recording struct {
	rec    *replay.Recorder
	stream replay.Stream
	once   sync.Once
	src    *replay.Source // nil if the recorder did not take the stream
}

// record makes c observe its engines' updates for rec. Queue pairs of one device
// have one port and path MTU, as those of a test do.
func record(rec *replay.Recorder, dev verbs.Device, c *paced.Config, p Pacing) {
	r := &recording{rec: rec, stream: replay.Stream{
		Device: dev.Name(), Engine: p.Engine, Set: p.Settings, Base: c.BaseRTT.Microseconds(),
		Time: time.Now().UTC().Format(time.RFC3339),
	}}
	if p.Rate > 0 {
		r.stream.Engine = p.String()
	}
	c.Observe = func(qp *paced.QP, a *cc.Ack, control cc.Control) {
		r.once.Do(func() { r.begin(dev, qp) })
		if r.src != nil {
			r.src.Record(qp.Num(), a, control)
		}
	}
}

func (r *recording) begin(dev verbs.Device, qp *paced.QP) {
	attr, err := qp.Query()
	if err != nil {
		return
	}
	port, err := dev.Port(max(attr.Port, 1))
	if err != nil {
		return
	}
	r.stream.Line, r.stream.MTU = port.LinkRate, int64(attr.PathMTU)
	if src, err := r.rec.Source(r.stream); err == nil {
		r.src = src
	}
}
