//go:build linux

package virtual

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/turns"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

func (c *context) createCompChannel(m *uverbs.Message) guest.Reply {
	f, err := newEventFile(uverbs.Sizeof(uverbs.CompEvent{}))
	if err != nil {
		return failedBy(err)
	}
	program, err := f.program()
	if err != nil {
		f.close()
		return failedBy(err)
	}
	c.channels = append(c.channels, f)
	reply := done(m, uverbs.HandleResp{}, nil)
	reply.FD = program
	return reply
}

// channelOf finds the channel that the program has as a descriptor: libibverbs names it
// by its number in the program. EBADF if it is none.
func (c *context) channelOf(fd int32) (*eventFile, syscall.Errno) {
	if fd < 0 {
		return nil, 0
	}
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.node.process.PID, fd))
	if err != nil {
		return nil, syscall.EBADF
	}
	number, ok := strings.CutPrefix(link, "socket:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	if !ok || err != nil {
		return nil, syscall.EBADF
	}
	for _, f := range c.channels {
		if f.inode == inode {
			return f, 0
		}
	}
	return nil, syscall.EBADF
}

// completionQueue is a program's CQ.
type completionQueue struct {
	context *context
	user    uint64
	channel *eventFile // nil for a queue that is only polled
	engine  *mlx5.CQ
	backend verbs.CQ
	entries uint32
	record  uint64 // address of the doorbell record

	users       int // queue pairs
	comp, async counter

	// In simulated time: looks at the ring while it is empty take time. nil for a ring that
	// can't be watched.
	watch    *turns.WatchedQueue
	produced uint32 // CQEs
}

// watchRing has looks at the ring take simulated time, from now on.
func (q *completionQueue) watchRing(buffer, record uint64, entries, entrySize int) {
	d := q.context.node.dev
	if d.sim == nil {
		return
	}
	if q.watch != nil {
		q.watch.Remove()
	}
	var err error
	q.watch, err = d.sim.scheduler.WatchQueue(q.context.node.process.PID, turns.Queue{
		Addr: buffer, Entries: uint32(entries), EntrySize: uint32(entrySize), Doorbell: record,
	})
	if err != nil { // a program that spins on it is seen by what it reads
		q.watch = nil
		return
	}
	q.watch.Produce(q.produced)
}

// onProduced takes note of CQEs that were written.
func (q *completionQueue) onProduced(count uint32) {
	q.produced = count
	if q.watch != nil {
		q.watch.Produce(count)
	}
}

func (c *context) createCQ(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateCQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	resp, driver, errno := c.newCQ(m, uverbs.CreateCQExReq{
		UserHandle: req.UserHandle, CQE: req.CQE, CompVector: req.CompVector, CompChannel: req.CompChannel,
	})
	if errno != 0 {
		return failed(errno)
	}
	return done(m, resp, driver)
}

func (c *context) createCQEx(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateCQExReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return failed(syscall.EINVAL)
	}
	if req.Flags&^(uverbs.CQTimestampCompletion|uverbs.CQIgnoreOverrun) != 0 {
		return failed(syscall.EOPNOTSUPP)
	}
	resp, driver, errno := c.newCQ(m, req)
	if errno != 0 {
		return failed(errno)
	}
	ex := uverbs.CreateCQExResp{Base: resp}
	ex.ResponseLength = uint32(min(m.CoreOut(), uverbs.Sizeof(ex)))
	return done(m, ex, driver)
}

func (c *context) newCQ(m *uverbs.Message, req uverbs.CreateCQExReq) (resp uverbs.CreateCQResp, driver uverbs.Mlx5CreateCQResp, errno syscall.Errno) {
	var ring uverbs.Mlx5CreateCQReq
	if errno := m.Driver(&ring); errno != 0 {
		return resp, driver, errno
	}
	d := c.node.dev
	realTime := uint16(0)
	if d.cfg.RealTime {
		realTime = uverbs.Mlx5CQRealTimeTS
	}
	channel, errno := c.channelOf(req.CompChannel)
	entries := ringSize(req.CQE)
	switch {
	case errno != 0:
		return resp, driver, errno
	case req.CompVector >= vectors(), req.CQE == 0, entries > min(maxCQBuffer, d.attr.MaxCQE),
		ring.CQESize != 64 && ring.CQESize != 128, ring.Reserved0 != 0, ring.Reserved1 != 0, ring.Flags&uverbs.Mlx5CQUARPageIndex != 0 && c.pages.uarOf(uint32(ring.UARPageIndex)) == nil:
		return resp, driver, syscall.EINVAL
	case ring.Flags&^(realTime|uverbs.Mlx5CQUARPageIndex) != 0: // padding, or what was not offered
		return resp, driver, syscall.EOPNOTSUPP
	}
	compression, ok := compressionOf(&ring)
	if !ok {
		return resp, driver, syscall.EOPNOTSUPP
	}
	if errno := c.pinned(ring.BufAddr, uint64(entries)*uint64(ring.CQESize), ring.DBAddr); errno != 0 {
		return resp, driver, errno
	}
	if errno := d.reserve(completionQueues); errno != 0 {
		return resp, driver, errno
	}
	backend, err := d.backend.CreateCQ(verbs.CQInitAttr{CQE: entries, Channel: c.channel, Timestamps: d.attr.CoreClockHz > 0})
	if err != nil {
		d.release(completionQueues)
		return resp, driver, errnoOf(err)
	}
	q := &completionQueue{context: c, user: req.UserHandle, channel: channel, backend: backend, entries: uint32(entries)}
	driver.CQN = d.nextNumber()
	config := mlx5.CQConfig{
		Number: driver.CQN, Buffer: ring.BufAddr, Record: ring.DBAddr, Entries: entries, EntrySize: int(ring.CQESize), Compression: compression, Backend: backend,
		Failed: func() { q.async.raise(c, q.user, ib.EventCQErr) }, Produced: q.onProduced,
	}
	if ring.Flags&uverbs.Mlx5CQRealTimeTS != 0 {
		config.Ticks = d.clock.stampedWall
	}
	if channel != nil {
		config.Event = q.onEvent
	}
	if q.engine, err = c.engine.CreateCQ(config); err != nil {
		_ = backend.Close()
		d.release(completionQueues)
		return resp, driver, errnoOf(err)
	}
	q.record = ring.DBAddr
	q.watchRing(ring.BufAddr, q.record, entries, int(ring.CQESize))
	c.loop.wake()
	return uverbs.CreateCQResp{Handle: c.add(q), CQE: q.entries - 1}, driver, 0
}

// compressionOf returns the compression of a queue's CQEs, and whether the device can do it:
// CQEs of 64 bytes in one of the formats that it reports.
func compressionOf(ring *uverbs.Mlx5CreateCQReq) (c mlx5.Compression, ok bool) {
	if ring.CQECompEn != 1 {
		return mlx5.Uncompressed, ring.CQECompEn == 0
	}
	c = mlx5.Compression(ring.CQECompResFormat)
	return c, ring.CQESize == 64 && (c == mlx5.CompressHash || c == mlx5.CompressSum)
}

// ringSize is the number of entries a ring for n of them and one more has: a power of two.
func ringSize(n uint32) int {
	size := 1
	for size < int(n)+1 {
		size <<= 1
	}
	return size
}

// onEvent puts a completion event into the queue's channel.
func (q *completionQueue) onEvent() {
	if event, err := binary.Append(nil, binary.LittleEndian, uverbs.CompEvent{CQHandle: q.user}); err == nil {
		q.comp.add()
		q.channel.send(event)
	}
}

// modifyCQEx moderates the queue's events.
func (c *context) modifyCQEx(m *uverbs.Message) guest.Reply {
	var req uverbs.ModifyCQExReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	switch {
	case req.AttrMask == 0, req.Reserved != 0:
		return failed(syscall.EINVAL)
	case req.AttrMask > uverbs.CQModerate:
		return failed(syscall.EOPNOTSUPP)
	}
	q, errno := lookup[*completionQueue](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	if req.Period > maxModerationPeriod {
		return failed(syscall.EINVAL)
	}
	if req.Period > 0 && c.node.dev.cfg.Simulated { // nothing looks at the queue when the time has passed
		return failed(syscall.EOPNOTSUPP)
	}
	if err := q.engine.Moderate(req.Count, time.Duration(req.Period)*time.Microsecond); err != nil {
		return failedBy(err)
	}
	return guest.Reply{}
}

func (c *context) resizeCQ(m *uverbs.Message) guest.Reply {
	var req uverbs.ResizeCQReq
	var ring uverbs.Mlx5ResizeCQReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if errno := m.Driver(&ring); errno != 0 {
		return failed(errno)
	}
	q, errno := lookup[*completionQueue](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	entries := ringSize(req.CQE)
	if req.CQE == 0 || entries > min(maxCQBuffer, c.node.dev.attr.MaxCQE) || ring.CQESize != 64 && ring.CQESize != 128 || ring.Reserved0 != 0 || ring.Reserved1 != 0 {
		return failed(syscall.EINVAL)
	}
	if !mapped(c.node.process, ring.BufAddr, uint64(entries)*uint64(ring.CQESize), true) {
		return failed(syscall.EFAULT)
	}
	if err := q.engine.Resize(ring.BufAddr, entries, int(ring.CQESize)); err != nil {
		return failedBy(err)
	}
	q.entries = uint32(entries)
	q.watchRing(ring.BufAddr, q.record, entries, int(ring.CQESize))
	return done(m, uverbs.ResizeCQResp{CQE: q.entries - 1}, nil)
}

func (c *context) destroyCQ(m *uverbs.Message) guest.Reply {
	var req uverbs.DestroyReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	q, errno := doomed[*completionQueue](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	if q.users > 0 {
		return failed(syscall.EBUSY)
	}
	if err := q.engine.Close(); err != nil {
		return failedBy(err)
	}
	if q.watch != nil {
		q.watch.Remove()
	}
	c.node.dev.release(completionQueues)
	c.remove(req.Handle)
	resp := uverbs.DestroyCQResp{AsyncEventsReported: q.async.read(c.async, q.user)}
	if q.channel != nil {
		resp.CompEventsReported = q.comp.read(q.channel, q.user)
	}
	return done(m, resp, nil)
}
