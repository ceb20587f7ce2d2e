//go:build linux

package ucma

import (
	"bytes"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// Programs race: perftest with -R tells its peer that it is ready, and then listens. On real
// machines the peer first resolves address and route, for longer than that takes. Here it does
// so at once, and would be refused. So a request for a service that nobody listens for
// waits for a listener, and is refused only then.

// patience is the time for which a request waits. A sender waits for over 4 seconds (CMA_CM_RESPONSE_TIMEOUT) before it
// sends its request again.
const patience = time.Second

// maxEarly is the largest number of waiting requests. Further ones are refused at once.
const maxEarly = 64

// early is a request that waits for a listener.
type early struct {
	dev     *device
	path    cm.Path
	service uint64
	mad     []byte
	giveUp  Timer
}

// holdEarly keeps a request that nobody listens for, if there is room, and reports whether it did.
func (d *device) holdEarly(path cm.Path, b []byte) bool {
	mad, err := roce.ParseMAD(b)
	if err != nil || mad.Attribute() != roce.AttrREQ {
		return false
	}
	var r roce.REQ
	h := d.host
	if r.Decode(mad) != nil || d.core.Listening(r.ServiceID) || len(h.early) == maxEarly || h.closed {
		return false
	}
	e := &early{dev: d, path: path, service: r.ServiceID, mad: bytes.Clone(b)}
	h.early = append(h.early, e)
	e.giveUp = h.cfg.NewTimer(func() {
		h.mu.Lock()
		if i := slices.Index(h.early, e); i >= 0 {
			h.early = slices.Delete(h.early, i, i+1)
			e.deliver()
		}
		h.unlock()
	})
	e.giveUp.Reset(patience)
	return true
}

// deliver gives the request to the connection manager.
func (e *early) deliver() {
	e.giveUp.Stop()
	e.dev.core.Receive(e.dev.now(), e.path, e.mad)
}

// deliverEarly gives the connection managers the requests that waited for a service.
func (h *Host) deliverEarly(service uint64) {
	h.early = slices.DeleteFunc(h.early, func(e *early) bool {
		if e.service != service {
			return false
		}
		e.deliver()
		return true
	})
}
