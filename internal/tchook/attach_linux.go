package tchook

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Programs are what is attached. Both return TC_ACT_UNSPEC for packets that are to go
// on to the next program.
type Programs struct {
	// Name is what `tc filter show` calls the programs' filters.
	Name              string
	Leaving, Arriving *ebpf.Program
	// LeavingLast puts Leaving behind the programs that others have attached. The
	// others go in front of theirs.
	LeavingLast bool
}

// Attachment is programs at an interface's hooks.
type Attachment struct {
	// How is "tcx" or "clsact".
	How    string
	detach func() error
}

// Detached returns an Attachment that is nowhere.
func Detached() Attachment { return Attachment{"nowhere", func() error { return nil }} }

// Detach takes the programs off.
func (a Attachment) Detach() error { return a.detach() }

// Attach attaches programs to the interface of that index.
func Attach(index int, p Programs) (Attachment, error) {
	a, err := attachTCX(index, p)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return AttachClsact(index, p)
	}
	return a, err
}

func attachTCX(index int, p Programs) (Attachment, error) {
	anchor := link.Head()
	if p.LeavingLast {
		anchor = link.Tail()
	}
	out, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p.Leaving, Attach: ebpf.AttachTCXEgress, Anchor: anchor})
	if err != nil {
		return Attachment{}, err
	}
	in, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p.Arriving, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return Attachment{}, errors.Join(err, out.Close())
	}
	return Attachment{"tcx", func() error { return errors.Join(in.Close(), out.Close()) }}, nil
}
