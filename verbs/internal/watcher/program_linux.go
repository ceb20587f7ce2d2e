package watcher

import (
	"errors"
	"io"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/verbs/internal/bpfring"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
)

// Program is a program whose records are of type E, as bpf2go makes it. It is an
// overlay.Program.
type Program[E any] struct {
	At      tchook.Attachment
	objects io.Closer
	flows   *ebpf.Map
	ring    *bpfring.Ring
	event   E
	each    func(*E) // of Take
	record  func([]byte)
}

// Load has the kernel check a program and assigns what it is made of to the fields of
// objects.
func Load(spec *ebpf.CollectionSpec, objects any) error {
	// Kernels before 5.11 count maps against the memory that may be locked.
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	return spec.LoadAndAssign(objects, nil)
}

// New returns the program that objects are of, attached nowhere. flows is its map from
// struct flow to ids, and events its ring of records. The objects are closed with the
// program, and if New fails.
func New[E any](objects io.Closer, flows, events *ebpf.Map) (*Program[E], error) {
	ring, err := bpfring.New(events.FD(), int(events.MaxEntries()))
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	p := &Program[E]{At: tchook.Detached(), objects: objects, flows: flows, ring: ring}
	into := unsafe.Slice((*byte)(unsafe.Pointer(&p.event)), unsafe.Sizeof(p.event))
	p.record = func(b []byte) {
		if len(b) == len(into) {
			copy(into, b)
			p.each(&p.event)
		}
	}
	return p, nil
}

// flow is struct flow of kernel.h: a direction of a connection.
type flow struct {
	Peer          [16]byte
	QPN, Arriving uint32
}

// directions returns a connection's two.
func directions(c overlay.Connection) [2]flow {
	peer := c.Peer.As16()
	return [2]flow{{peer, c.PeerQPN, 0}, {peer, c.LocalQPN, 1}}
}

// Register has the packets of a connection watched under an id: those to the peer's
// queue pair, and those to the local one.
func (p *Program[E]) Register(id uint32, c overlay.Connection) error {
	for _, f := range directions(c) {
		if err := p.flows.Put(f, id); err != nil {
			return errors.Join(err, p.Unregister(id, c))
		}
	}
	return nil
}

// Unregister implements overlay.Program.
func (p *Program[E]) Unregister(id uint32, c overlay.Connection) error {
	var errs []error
	for _, f := range directions(c) {
		// Another connection's by now, if the peer has assigned the number again.
		var now uint32
		err := p.flows.Lookup(f, &now)
		if err == nil && now == id {
			err = p.flows.Delete(f)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Take hands over the records that are there, each until the next. It does not wait,
// and one goroutine at a time calls it.
func (p *Program[E]) Take(each func(*E)) {
	p.each = each
	p.ring.Take(p.record)
}

// Close implements overlay.Program.
func (p *Program[E]) Close() error {
	return errors.Join(p.At.Detach(), p.ring.Close(), p.objects.Close())
}

// ReadClock reads the clock of the records, CLOCK_MONOTONIC, in nanoseconds.
func ReadClock() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // it can't: the clock exists and t is memory
	}
	return uint64(t.Nano())
}
