//go:build linux

package virtual

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// methods are the device's ioctls: the ones without another form. libibverbs
// tries the ioctl for others, hears EPROTONOSUPPORT, and writes its command. A context can't
// be imported (UVERBS_METHOD_QUERY_CONTEXT): libibverbs makes its queues by ioctl only.
var methods = map[uverbs.MethodID]func(*context, *call) syscall.Errno{
	uverbs.MethodQueryPort:     (*context).queryPortEx,
	uverbs.MethodQueryGIDTable: (*context).queryGIDTable, uverbs.MethodQueryGIDEntry: (*context).queryGIDEntry,
	uverbs.MethodQueryMR: (*context).queryMR, uverbs.MethodAllocAsync: (*context).allocAsync,
	uverbs.MethodMlx5QueryPort: (*context).queryMlx5Port, uverbs.MethodMlx5QueryPD: (*context).queryPD,
	uverbs.MethodMlx5AllocUAR: (*context).allocUAR, uverbs.MethodMlx5FreeUAR: (*context).freeUAR,
}

// call is an ioctl with what it returns.
type call struct {
	*uverbs.Call
	context *context
	arg     uint64 // where the program has it
	raw     []byte
	reply   guest.Reply
}

// Ioctl implements guest.File.
func (n *node) Ioctl(request, arg uint64) guest.Reply {
	if request != uverbs.VerbsIoctl {
		return failed(syscall.ENOTTY)
	}
	var head [uverbs.CallHeaderBytes]byte
	if n.process.Memory.ReadMemory(head[:], arg) != nil {
		return failed(syscall.EFAULT)
	}
	length, errno := uverbs.CallBytes(head[:])
	if errno != 0 {
		return failed(errno)
	}
	c := &call{context: n.context, arg: arg, raw: make([]byte, length)}
	if n.process.Memory.ReadMemory(c.raw, arg) != nil {
		return failed(syscall.EFAULT)
	}
	copy(c.raw, head[:]) // another thread may have changed it
	if c.Call, errno = uverbs.ParseCall(c.raw); errno != 0 {
		return failed(errno)
	}
	if n.context == nil {
		return failed(syscall.EINVAL)
	}
	if errno := methods[c.MethodID](n.context, c); errno != 0 {
		return failed(errno)
	}
	c.reply.To, c.reply.Data = arg, c.raw
	return c.reply
}

// out writes a value to where an attribute says, as much as it has room for. Without the
// attribute it does nothing.
func (c *call) out(id uint16, value any) syscall.Errno {
	i, a := c.Find(id)
	if a == nil {
		return 0
	}
	b, err := binary.Append(nil, binary.LittleEndian, value)
	if err != nil {
		return syscall.EINVAL
	}
	if c.context.node.process.Memory.WriteMemory(b[:min(len(b), int(a.Len))], a.Data) != nil {
		return syscall.EFAULT
	}
	c.raw[uverbs.CallHeaderBytes+i*uverbs.AttrBytes+4] |= uverbs.AttrValidOutput
	return 0
}

// data returns the place of an attribute's value in the call, to put a handle there.
func (c *call) data(id uint16) int {
	i, _ := c.Find(id)
	return uverbs.CallHeaderBytes + i*uverbs.AttrBytes + 8
}

// all is the first of errnos that is one.
func all(errnos ...syscall.Errno) syscall.Errno {
	i := slices.IndexFunc(errnos, func(e syscall.Errno) bool { return e != 0 })
	if i < 0 {
		return 0
	}
	return errnos[i]
}

func (c *context) queryPortEx(x *call) syscall.Errno {
	if x.In(0) != 1 {
		return syscall.EINVAL
	}
	return x.out(1, uverbs.QueryPortExResp{QueryPortResp: c.node.dev.portResp()})
}

// queryMlx5Port says what a port has beside: nothing, as it forwards for no other.
func (c *context) queryMlx5Port(x *call) syscall.Errno {
	if x.In(uverbs.DriverNS) != 1 {
		return syscall.EINVAL
	}
	return x.out(uverbs.DriverNS|1, [uverbs.Mlx5PortBytes]byte{})
}

// gidEntry is an entry of the GID table.
func (d *Device) gidEntry(gid netip.Addr, i int) uverbs.GIDEntry {
	e := uverbs.GIDEntry{GID: gid.As16(), Index: uint32(i), Port: 1, Type: uverbs.GIDTypeRoCEv2}
	if nic, err := net.InterfaceByName(d.Port().Netdev); err == nil {
		e.NetIndex = uint32(nic.Index)
	}
	return e
}

func (c *context) queryGIDTable(x *call) syscall.Errno {
	size := x.In(0)
	_, to := x.Find(2)
	d := c.node.dev
	gids := d.gids()
	present := uint64(0)
	for _, gid := range gids {
		if !gid.IsUnspecified() {
			present++
		}
	}
	switch {
	case x.In(1) != 0, size == 0, size > uint64(to.Len):
		return syscall.EINVAL
	case uint64(to.Len)/size < present:
		return syscall.EINVAL
	}
	var table []byte
	for i, gid := range gids {
		if gid.IsUnspecified() { // the kernel leaves empty places out
			continue
		}
		entry := make([]byte, size)
		b, err := binary.Append(nil, binary.LittleEndian, d.gidEntry(gid, i))
		if err != nil {
			return syscall.EINVAL
		}
		copy(entry, b)
		table = append(table, entry...)
	}
	return all(x.out(2, table), x.out(3, present))
}

func (c *context) queryGIDEntry(x *call) syscall.Errno {
	i, gids := x.In(1), c.node.dev.gids()
	switch {
	case x.In(0) != 1 || x.In(2) != 0 || i >= uint64(len(gids)):
		return syscall.EINVAL
	case gids[i].IsUnspecified():
		return syscall.ENODATA
	}
	return x.out(3, c.node.dev.gidEntry(gids[i], int(i)))
}

func (c *context) queryMR(x *call) syscall.Errno {
	r, errno := lookup[*region](&c.handles, x.In(0))
	if errno != 0 {
		return errno
	}
	return all(x.out(1, r.backend.LKey()), x.out(2, r.backend.RKey()), x.out(3, r.length), x.out(4, r.va))
}

func (c *context) queryPD(x *call) syscall.Errno {
	pd, errno := lookup[*domain](&c.handles, x.In(uverbs.DriverNS))
	if errno != 0 {
		return errno
	}
	return x.out(uverbs.DriverNS|1, pd.number)
}

// allocAsync makes another file of asynchronous events. Those of objects go to the first.
func (c *context) allocAsync(x *call) syscall.Errno {
	f, err := newEventFile(uverbs.Sizeof(uverbs.AsyncEvent{}))
	if err != nil {
		return errnoOf(err)
	}
	program, err := f.program()
	if err != nil {
		f.close()
		return errnoOf(err)
	}
	c.node.mu.Lock()
	c.monitors = append(c.monitors, f)
	c.node.mu.Unlock()
	x.reply.FD, x.reply.FDAt = program, x.data(0)
	return 0
}

// allocUAR makes a page to ring doorbells on. Both types are the same memory.
func (c *context) allocUAR(x *call) syscall.Errno {
	if t := x.In(uverbs.DriverNS | 1); t != uverbs.UARBlueFlame && t != uverbs.UARNoCombine {
		return syscall.EOPNOTSUPP
	}
	u, err := c.pages.allocUAR(c.engine)
	if err != nil {
		return errnoOf(err)
	}
	if errno := all(
		x.out(uverbs.DriverNS|2, u.offset()), x.out(uverbs.DriverNS|3, uint32(pageBytes)), x.out(uverbs.DriverNS|4, u.number()),
	); errno != 0 {
		c.pages.freeUAR(u)
		return errno
	}
	binary.LittleEndian.PutUint64(x.raw[x.data(uverbs.DriverNS):], uint64(c.add(u)))
	return 0
}

func (c *context) freeUAR(x *call) syscall.Errno {
	handle := x.In(uverbs.DriverNS)
	u, errno := doomed[*uar](&c.handles, handle)
	if errno != 0 {
		return errno
	}
	c.remove(uint32(handle))
	c.loop.onFreed(uint64(u.index))
	c.pages.freeUAR(u)
	return 0
}
