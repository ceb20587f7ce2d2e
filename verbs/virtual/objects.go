//go:build linux

package virtual

import (
	"sync"
	"syscall"
)

// kind is a kind of object of which the device states how many there may be.
type kind int

const (
	domains kind = iota
	regions
	completionQueues
	sharedQueues
	queuePairs
	addressHandles
	kinds
)

// objects counts the objects that programs have of a device. The back end has limits of its own,
// which may be above what the device states.
type objects struct {
	mu sync.Mutex
	n  [kinds]uint32
}

// most is the number of objects of a kind that the device states.
func (d *Device) most(k kind) uint32 {
	r := d.baseAttributes()
	return [kinds]uint32{
		domains: r.MaxPD, regions: r.MaxMR, completionQueues: r.MaxCQ, sharedQueues: r.MaxSRQ, queuePairs: r.MaxQP, addressHandles: r.MaxAH,
	}[k]
}

// reserve takes a place for an object, or says that the device is full.
func (d *Device) reserve(k kind) syscall.Errno {
	most := d.most(k)
	d.objects.mu.Lock()
	defer d.objects.mu.Unlock()
	if d.objects.n[k] >= most {
		return syscall.ENOMEM
	}
	d.objects.n[k]++
	return 0
}

// release gives a place back, of an object that is gone or was not made.
func (d *Device) release(k kind) {
	d.objects.mu.Lock()
	defer d.objects.mu.Unlock()
	d.objects.n[k]--
}
