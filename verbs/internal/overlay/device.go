package overlay

import (
	"context"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

// Device is a verbs.Device over another one. Make it with New.
type Device[Q Conn, V any] struct {
	verbs.Device // the one below
	layer        Layer[Q, V]

	// Guarded by the layer's lock.
	inner   map[any]any // QPs and CQs of the device below, to those here
	flows   flows[Q]
	strange uint64
}

// New returns a device over dev. From then on use dev only through this device, whose
// Close closes dev.
func New[Q Conn, V any](dev verbs.Device, l Layer[Q, V]) *Device[Q, V] {
	return &Device[Q, V]{Device: dev, layer: l, inner: map[any]any{}, flows: flows[Q]{bits: l.IndexBits}}
}

// Unwrap returns the device below.
func (d *Device[Q, V]) Unwrap() verbs.Device { return d.Device }

// AsyncEvent implements verbs.Device.
func (d *Device[Q, V]) AsyncEvent(ctx context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	e, err := d.Device.AsyncEvent(ctx, timeout)
	if err != nil {
		return e, err
	}
	d.layer.Mu.Lock()
	defer d.layer.Mu.Unlock()
	if q, ok := d.inner[e.QP].(verbs.QP); ok {
		e.QP = q
	}
	if c, ok := d.inner[e.CQ].(verbs.CQ); ok {
		e.CQ = c
	}
	return e, nil
}

// Close implements verbs.Device. It takes the program away.
func (d *Device[Q, V]) Close() error {
	if err := d.Device.Close(); err != nil {
		return err
	}
	return d.layer.Program.Close()
}

// Flow returns the connection of an id that the program uses. If there is none, it
// counts the program's record as strange. The lock is held.
func (d *Device[Q, V]) Flow(id uint32) (q Q, ok bool) {
	if q, ok = d.flows.find(id); !ok {
		d.strange++
	}
	return q, ok
}

// Strange counts the program's records that belonged to no connection, or to
// none of its outstanding requests. The lock is held.
func (d *Device[Q, V]) Strange() uint64 {
	n := d.strange
	for i := range d.flows.list {
		if f := &d.flows.list[i]; f.used {
			n += f.q.common().Queue.Strange()
		}
	}
	return n
}
