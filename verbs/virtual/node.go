//go:build linux

package virtual

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// node is the device's uverbs node as a process has it open: a guest.File. The first
// command gives it its context, which is all the rest.
type node struct {
	dev     *Device
	process *guest.Process

	mu      sync.Mutex // for Close, which Device.Close may call, and for port events
	closed  bool
	context *context
}

// context is a program's part of the device: pages, objects, events.
type context struct {
	node *node
	handles
	pages  *pages
	engine *mlx5.Engine
	loop   attendant
	// channel receives the events of the back end's completion queues.
	channel  verbs.CompChannel
	async    *eventFile
	monitors []*eventFile // others of asynchronous events, for those of no object
	channels []*eventFile
}

// attendant has a context's engine look at doorbells and completions: a loop, or in
// simulated time a turn.
type attendant interface {
	start(*mlx5.Engine)
	// wake says that there is something to look at; it may be called with locks held.
	wake()
	// onMapped says where the program has mapped a page.
	onMapped(cookie, addr uint64)
	// onFreed says that the program has freed one.
	onFreed(cookie uint64)
	stop()
}

func newNode(d *Device, p *guest.Process) *node { return &node{dev: d, process: p} }

var _ guest.File = (*node)(nil)

// commands are the commands that need a context.
var commands = map[uverbs.Op]func(*context, *uverbs.Message) guest.Reply{
	uverbs.QueryDevice: (*context).queryDevice, uverbs.QueryDeviceEx: (*context).queryDeviceEx, uverbs.QueryPort: (*context).queryPort,
	uverbs.AllocPD: (*context).allocPD, uverbs.DeallocPD: (*context).deallocPD,
	uverbs.RegMR: (*context).regMR, uverbs.ReregMR: (*context).reregMR, uverbs.DeregMR: (*context).deregMR,
	uverbs.CreateAH: (*context).createAH, uverbs.DestroyAH: (*context).destroyAH,
	uverbs.CreateCompChannel: (*context).createCompChannel,
	uverbs.CreateCQ:          (*context).createCQ, uverbs.CreateCQEx: (*context).createCQEx,
	uverbs.ResizeCQ: (*context).resizeCQ, uverbs.ModifyCQEx: (*context).modifyCQEx, uverbs.DestroyCQ: (*context).destroyCQ,
	uverbs.CreateSRQ: (*context).createSRQ, uverbs.CreateXSRQ: (*context).createXSRQ,
	uverbs.ModifySRQ: (*context).modifySRQ, uverbs.QuerySRQ: (*context).querySRQ, uverbs.DestroySRQ: (*context).destroySRQ,
	uverbs.CreateQP: (*context).createQP, uverbs.CreateQPEx: (*context).createQPEx,
	uverbs.QueryQP: (*context).queryQP, uverbs.ModifyQP: (*context).modifyQP, uverbs.ModifyQPEx: (*context).modifyQPEx,
	uverbs.DestroyQP: (*context).destroyQP,
	// What the device has not, the kernel finds when it looks for the driver's function.
	// Multicast it tries on the queue pair.
	uverbs.AttachMcast: (*context).refuse, uverbs.DetachMcast: (*context).refuse,
}

// Write implements guest.File.
func (n *node) Write(cmd []byte) guest.Reply {
	m, errno := uverbs.Parse(cmd)
	if errno != 0 {
		return guest.Reply{Errno: errno}
	}
	if m.Op == uverbs.GetContext {
		return n.getContext(&m)
	}
	if n.context == nil {
		return guest.Reply{Errno: syscall.EINVAL}
	}
	if do := commands[m.Op]; do != nil {
		return do(n.context, &m)
	}
	return guest.Reply{Errno: syscall.EOPNOTSUPP}
}

// Mmap implements guest.File.
func (n *node) Mmap(offset uint64, length int, writable bool) guest.MapReply {
	if n.context == nil {
		return guest.MapReply{Errno: syscall.EINVAL}
	}
	return n.context.pages.mmap(offset, length, writable)
}

// Mapped implements guest.File.
func (n *node) Mapped(cookie, addr uint64) {
	if n.context != nil {
		n.context.loop.onMapped(cookie, addr)
	}
}

// Close implements guest.File.
func (n *node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.closed = true
	n.dev.mu.Lock()
	delete(n.dev.nodes, n)
	n.dev.mu.Unlock()
	if n.context != nil {
		n.context.close()
	}
}

func failed(errno syscall.Errno) guest.Reply { return guest.Reply{Errno: errno} }

func failedBy(err error) guest.Reply { return guest.Reply{Errno: errnoOf(err)} }

// done is the reply of a command with a response.
func done(m *uverbs.Message, core, driver any) guest.Reply {
	return guest.Reply{To: m.To, Data: m.Response(core, driver)}
}

func (c *context) refuse(*uverbs.Message) guest.Reply { return failed(syscall.EOPNOTSUPP) }

// getContext makes the context: clocks, and the file of asynchronous events. Pages to ring
// doorbells on the library allocates itself: one that can't is of before rdma-core 29.
func (n *node) getContext(m *uverbs.Message) guest.Reply {
	var req uverbs.Mlx5ContextReq
	if errno := m.Driver(&req); errno != 0 {
		return failed(errno)
	}
	switch {
	case n.context != nil, m.DriverIn() < 8:
		return failed(syscall.EINVAL)
	case req.CompMask|req.Flags != 0 || req.Reserved0 != 0 || req.Reserved1 != 0 || req.Reserved2 != 0:
		return failed(syscall.EOPNOTSUPP) // DEVX among the flags
	case req.LibCaps&uverbs.Mlx5LibCapDynamicUAR == 0:
		return failed(syscall.EOPNOTSUPP)
	}
	c := &context{node: n}
	fd, err := c.open()
	if err != nil {
		c.close()
		return failedBy(err)
	}
	n.mu.Lock()
	n.context = c
	n.mu.Unlock()
	driver := n.dev.contextResp()
	driver.ResponseLength = uint32(min(m.DriverOut(), uverbs.Sizeof(driver)))
	reply := done(m, uverbs.GetContextResp{NumCompVectors: vectors()}, driver)
	reply.FD = fd
	return reply
}

func (c *context) open() (program *os.File, err error) {
	d, p := c.node.dev, c.node.process
	if c.pages, err = newPages(d.clock); err != nil {
		return nil, err
	}
	if c.async, err = newEventFile(uverbs.Sizeof(uverbs.AsyncEvent{})); err != nil {
		return nil, err
	}
	if c.channel, err = d.backend.CreateCompChannel(); err != nil {
		return nil, err
	}
	if d.cfg.Simulated {
		c.loop = &turn{sim: d.sim, context: c}
	} else {
		c.loop = newLoop(p.Watch, c.channel)
	}
	c.engine = mlx5.NewEngine(mlx5.Config{Memory: p.Memory, Ticks: d.clock.stamped, Wake: c.loop.wake, Now: d.backend.Now})
	c.loop.start(c.engine)
	return c.async.program()
}

// close destroys everything, in the order in which things refer to each other.
func (c *context) close() {
	if c.loop != nil {
		c.loop.stop()
	}
	for _, q := range take[*queuePair](&c.handles) {
		q.destroy()
	}
	d := c.node.dev
	for _, s := range take[*sharedQueue](&c.handles) {
		_ = s.engine.Close()
		d.release(sharedQueues)
	}
	for _, q := range take[*completionQueue](&c.handles) {
		_ = q.engine.Close()
		d.release(completionQueues)
	}
	for range take[*addressHandle](&c.handles) {
		d.release(addressHandles)
	}
	take[*uar](&c.handles) // pages' to free
	for _, r := range take[*region](&c.handles) {
		_ = r.backend.Close()
		d.release(regions)
	}
	for _, p := range take[*domain](&c.handles) {
		_ = p.backend.Close()
		d.release(domains)
	}
	if c.channel != nil {
		_ = c.channel.Close()
	}
	for _, f := range slices.Concat(c.channels, c.monitors, []*eventFile{c.async}) {
		if f != nil {
			f.close()
		}
	}
	if c.pages != nil {
		c.pages.close()
	}
}

// raise sends an asynchronous event about the object or port that element names.
func (c *context) raise(element uint64, t ib.EventType, to ...*eventFile) {
	event, err := binary.Append(nil, binary.LittleEndian, uverbs.AsyncEvent{Element: element, Type: uint32(t)})
	if err != nil {
		return
	}
	for _, f := range to {
		f.send(event)
	}
}

func (n *node) portEvent(t ib.EventType, port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.context != nil && !n.closed {
		n.context.raise(uint64(port), t, slices.Concat(n.context.monitors, []*eventFile{n.context.async})...)
	}
}
