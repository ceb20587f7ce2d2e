package reduced

import (
	"unsafe"

	"github.com/sluice-rdma/sluice/internal/prefetch"
)

// Foresee implements fabric.Foresight.
func (n *nic) Foresee() {
	prefetch.Lines(unsafe.Pointer(n), unsafe.Sizeof(*n))
}

// ForeseeMore implements fabric.Foresight. Of several flows it is mostly the one
// that is in line that is next.
func (n *nic) ForeseeMore() {
	if len(n.due.requests) > 0 {
		s := &n.senders[n.due.requests[0].sender]
		prefetch.Lines(unsafe.Pointer(s), unsafe.Sizeof(*s))
	}
	if len(n.receivers) > 0 {
		prefetch.Line(unsafe.Pointer(&n.receivers[0]))
	}
}
