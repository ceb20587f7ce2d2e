package tchook

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// clsactHandle is the handle of a clsact qdisc; an interface has one such qdisc.
const clsactHandle = 0xffff0000

// Priorities of filters: the kernel asks those of the lower number first.
const (
	first = 1
	last  = 0xff00
)

// AttachClsact attaches as Attach does, by filters whatever the kernel has.
func AttachClsact(index int, p Programs) (Attachment, error) {
	// A handle of its own belongs to this network namespace also when the
	// programs are taken off from another one.
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Attachment{}, err
	}
	c := &clsact{h: h, index: index, name: p.Name}
	if err := c.sweep(); err != nil {
		h.Close()
		return Attachment{}, err
	}
	if err = c.add(p); err != nil {
		return Attachment{}, errors.Join(err, c.remove())
	}
	return Attachment{"clsact", c.remove}, nil
}

// clsact is filters on an interface.
type clsact struct {
	h       *netlink.Handle
	index   int
	name    string
	created bool // the qdisc
	ids     []int
	alive   []net.PacketConn // for each of ids
	jumps   []*ebpf.Map
}

// trampoline returns a program that jumps to p as long as this process has the map: the
// kernel empties a map of programs when the last process that has it open ends, however
// it ends. Without p the trampoline leaves packets unchanged, so a filter can stay
// behind with it.
func trampoline(p *ebpf.Program) (*ebpf.Program, *ebpf.Map, error) {
	jump, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return nil, nil, fmt.Errorf("map of programs: %w", err)
	}
	fail := func(err error) (*ebpf.Program, *ebpf.Map, error) { return nil, nil, errors.Join(err, jump.Close()) }
	if err := jump.Put(uint32(0), p); err != nil {
		return fail(fmt.Errorf("map of programs: %w", err))
	}
	const unspec = -1 // TC_ACT_UNSPEC: on to the next program
	t, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R2, jump.FD()), // the packet is in R1
			asm.Mov.Imm(asm.R3, 0),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, unspec),
			asm.Return(),
		},
	})
	if err != nil {
		return fail(fmt.Errorf("trampoline: %w", err))
	}
	return t, jump, nil
}

func (c *clsact) qdisc() netlink.Qdisc {
	return &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: c.index, Handle: clsactHandle, Parent: netlink.HANDLE_CLSACT},
		QdiscType:  "clsact",
	}
}

// claim takes the name that marks a program's process as alive: an abstract socket.
// The socket belongs to the network namespace, as the interface does, and
// disappears with the process. claim fails if another process has the name.
func (c *clsact) claim(id int) (net.PacketConn, error) {
	return net.ListenPacket("unixgram", fmt.Sprintf("@%s-%d", c.name, id))
}

func (c *clsact) add(p Programs) error {
	switch err := c.h.QdiscAdd(c.qdisc()); {
	case err == nil:
		c.created = true
	case !errors.Is(err, unix.EEXIST):
		return fmt.Errorf("clsact qdisc: %w", err)
	}
	for _, x := range []struct {
		parent   uint32
		program  *ebpf.Program
		priority uint16
	}{{netlink.HANDLE_MIN_EGRESS, p.Leaving, priority(p.LeavingLast)}, {netlink.HANDLE_MIN_INGRESS, p.Arriving, first}} {
		program, jump, err := trampoline(x.program)
		if err != nil {
			return err
		}
		defer func() { _ = program.Close() }() // the filter keeps it
		c.jumps = append(c.jumps, jump)
		info, err := program.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		alive, err := c.claim(int(id))
		if err != nil {
			return err
		}
		c.ids, c.alive = append(c.ids, int(id)), append(c.alive, alive)
		f := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: c.index, Parent: x.parent, Protocol: unix.ETH_P_ALL, Priority: x.priority},
			Fd:          program.FD(), Name: c.name, DirectAction: true,
		}
		if err := c.h.FilterAdd(f); err != nil {
			f.Priority = 0 // the place is taken by another kind: the kernel's choice
			if err = c.h.FilterAdd(f); err != nil {
				return fmt.Errorf("bpf filter: %w", err)
			}
		}
	}
	return nil
}

func priority(isLast bool) uint16 {
	if isLast {
		return last
	}
	return first
}

// sweep removes the filters of that name whose process has ended.
func (c *clsact) sweep() error {
	_, err := c.each(func(f *netlink.BpfFilter) (gone bool) {
		if f.Name != c.name {
			return false
		}
		claimed, err := c.claim(f.Id)
		if err != nil {
			return false
		}
		_ = claimed.Close()
		return true
	})
	return err
}

// Prefix is what the names of Sluice's filters begin with.
const Prefix = "sluice-"

// Abandoned describes Sluice's filters on an interface whose process has ended, as
// arguments of `tc filter del`. They only cost each packet a few nanoseconds.
func Abandoned(index int) ([]string, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	c := &clsact{h: h, index: index}
	on, err := h.LinkByIndex(index)
	if err != nil {
		return nil, err
	}
	var found []string
	_, err = c.each(func(f *netlink.BpfFilter) bool {
		if c.name = f.Name; !strings.HasPrefix(f.Name, Prefix) {
			return false
		}
		claimed, err := c.claim(f.Id)
		if err != nil {
			return false
		}
		_ = claimed.Close()
		hook := "ingress"
		if f.Parent == netlink.HANDLE_MIN_EGRESS {
			hook = "egress"
		}
		found = append(found, fmt.Sprintf("dev %s %s pref %d", on.Attrs().Name, hook, f.Priority))
		return false
	})
	return found, err
}

// remove takes the filters off, and the qdisc if it was made for them and has no
// others.
func (c *clsact) remove() error {
	defer c.h.Close()
	others, err := c.each(func(f *netlink.BpfFilter) bool { return c.own(f.Id) })
	if err == nil && c.created && others == 0 {
		err = c.h.QdiscDel(c.qdisc())
		if errors.Is(err, unix.ENODEV) {
			err = nil // the interface is gone, and they with it
		}
	}
	for _, a := range c.alive {
		_ = a.Close()
	}
	for _, j := range c.jumps {
		_ = j.Close()
	}
	return err
}

// each removes the interface's filters for which unwanted returns true, and counts
// the others.
func (c *clsact) each(unwanted func(*netlink.BpfFilter) bool) (others int, err error) {
	on, err := c.h.LinkByIndex(c.index)
	if err != nil {
		return 0, nil // the interface is gone, and they with it
	}
	var errs []error
	for _, parent := range []uint32{netlink.HANDLE_MIN_EGRESS, netlink.HANDLE_MIN_INGRESS} {
		list, err := c.h.FilterList(on, parent)
		if err != nil {
			continue // no qdisc
		}
		for _, f := range list {
			if b, ok := f.(*netlink.BpfFilter); ok && unwanted(b) {
				errs = append(errs, c.h.FilterDel(f))
			} else {
				others++
			}
		}
	}
	return others, errors.Join(errs...)
}

func (c *clsact) own(id int) bool {
	for _, i := range c.ids {
		if i == id {
			return true
		}
	}
	return false
}
