package wirestamp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// attachment is the programs at an interface's hooks.
type attachment struct {
	how    string
	detach func() error
}

// attach puts both programs in front of what others have attached: by TCX where
// the kernel has it (6.6), else as filters of a clsact qdisc.
func attach(index int, leaving, arriving *ebpf.Program) (attachment, error) {
	a, err := attachTCX(index, leaving, arriving)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return attachClsact(index, leaving, arriving)
	}
	return a, err
}

func attachTCX(index int, leaving, arriving *ebpf.Program) (attachment, error) {
	out, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: leaving, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
	if err != nil {
		return attachment{}, err
	}
	in, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: arriving, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return attachment{}, errors.Join(err, out.Close())
	}
	return attachment{"tcx", func() error { return errors.Join(in.Close(), out.Close()) }}, nil
}

// clsactHandle is the handle of a clsact qdisc, of which an interface has one.
const clsactHandle = 0xffff0000

// attachClsact attaches by netlink. The kernel does not take filters off when a
// process dies, as it does with TCX.
func attachClsact(index int, leaving, arriving *ebpf.Program) (attachment, error) {
	// A handle of its own belongs to this network namespace also when the
	// programs are taken off from another one.
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return attachment{}, err
	}
	c := &clsact{h: h, index: index}
	err = c.add(leaving, arriving)
	if err != nil {
		return attachment{}, errors.Join(err, c.remove())
	}
	return attachment{"clsact", c.remove}, nil
}

// clsact is filters on an interface.
type clsact struct {
	h       *netlink.Handle
	index   int
	created bool // the qdisc
	ids     []int
}

func (c *clsact) qdisc() netlink.Qdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: c.index, Handle: clsactHandle, Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
}

func (c *clsact) add(leaving, arriving *ebpf.Program) error {
	switch err := c.h.QdiscAdd(c.qdisc()); {
	case err == nil:
		c.created = true
	case !errors.Is(err, unix.EEXIST):
		return fmt.Errorf("clsact qdisc: %w", err)
	}
	for parent, p := range map[uint32]*ebpf.Program{netlink.HANDLE_MIN_EGRESS: leaving, netlink.HANDLE_MIN_INGRESS: arriving} {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		f := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: c.index, Parent: parent, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:          p.FD(), Name: filterName, DirectAction: true,
		}
		if err := c.h.FilterAdd(f); err != nil {
			f.Priority = 0 // the first place is taken by another kind: the kernel's choice
			if err = c.h.FilterAdd(f); err != nil {
				return fmt.Errorf("bpf filter: %w", err)
			}
		}
		c.ids = append(c.ids, int(id))
	}
	return nil
}

// filterName is what `tc filter show` calls the programs.
const filterName = "sluice-wirestamp"

// remove takes the filters off, and the qdisc if it was made for them and has no
// others.
func (c *clsact) remove() error {
	defer c.h.Close()
	on, err := c.h.LinkByIndex(c.index)
	if err != nil {
		return nil // the interface is gone, and they with it
	}
	others := 0
	var errs []error
	for _, parent := range []uint32{netlink.HANDLE_MIN_EGRESS, netlink.HANDLE_MIN_INGRESS} {
		list, err := c.h.FilterList(on, parent)
		if err != nil {
			continue // no qdisc
		}
		for _, f := range list {
			if !c.own(f) {
				others++
				continue
			}
			errs = append(errs, c.h.FilterDel(f))
		}
	}
	if c.created && others == 0 {
		errs = append(errs, c.h.QdiscDel(c.qdisc()))
	}
	return errors.Join(errs...)
}

func (c *clsact) own(f netlink.Filter) bool {
	b, ok := f.(*netlink.BpfFilter)
	if !ok {
		return false
	}
	for _, id := range c.ids {
		if b.Id == id {
			return true
		}
	}
	return false
}
