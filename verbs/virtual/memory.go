//go:build linux

package virtual

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// domain is a program's PD.
type domain struct {
	backend verbs.PD
	number  uint32
	users   int
}

func (c *context) allocPD(m *uverbs.Message) guest.Reply {
	if errno := c.node.dev.reserve(domains); errno != 0 {
		return failed(errno)
	}
	pd, err := c.node.dev.backend.AllocPD()
	if err != nil {
		c.node.dev.release(domains)
		return failedBy(err)
	}
	p := &domain{backend: pd, number: c.node.dev.nextNumber()}
	return done(m, uverbs.HandleResp{Handle: c.add(p)}, uverbs.Mlx5AllocPDResp{PDN: p.number})
}

func (c *context) deallocPD(m *uverbs.Message) guest.Reply {
	var req uverbs.HandleReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	pd, errno := doomed[*domain](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	if pd.users > 0 {
		return failed(syscall.EBUSY)
	}
	if err := pd.backend.Close(); err != nil {
		return failedBy(err)
	}
	c.node.dev.release(domains)
	c.remove(req.Handle)
	return guest.Reply{}
}

// region is registered memory.
type region struct {
	pd                *domain
	backend           verbs.MR
	start, length, va uint64
	access            uint32
}

// Access flags of uverbs beside ib's (enum ibv_access_flags).
const (
	accessMWBind    = 1 << 4
	accessZeroBased = 1 << 5
	accessOnDemand  = 1 << 6
	accessOptional  = 0x3ff << 20 // relaxed ordering among them: what a device may ignore
	accessKnown     = uint32(ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic|ib.AccessHugeTLB) |
		accessMWBind | accessZeroBased | accessOnDemand | accessOptional
	accessOfBackend = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic
)

// register registers memory of the program, as the kernel does for a device without
// on-demand paging.
func (c *context) register(pd *domain, start, length, va uint64, access uint32) (*region, syscall.Errno) {
	switch {
	case access&accessOnDemand != 0:
		return nil, syscall.EOPNOTSUPP
	case (start^va)%pageBytes != 0, length == 0, start+length < start, va+length < va, length > c.node.dev.attr.MaxMRSize:
		return nil, syscall.EINVAL
	}
	if errno := c.allowed(start, length, access); errno != 0 {
		return nil, errno
	}
	mr, err := pd.backend.(verbs.MemoryPD).RegMemory(c.node.process.Memory, start, length, va, ib.AccessFlags(access)&accessOfBackend)
	if err != nil {
		return nil, errnoOf(err)
	}
	return &region{pd: pd, backend: mr, start: start, length: length, va: va, access: access}, 0
}

// allowed says what the kernel does of memory that is to be accessed so.
func (c *context) allowed(start, length uint64, access uint32) syscall.Errno {
	remoteWrites := access & uint32(ib.AccessRemoteWrite|ib.AccessRemoteAtomic)
	writes := remoteWrites != 0 || access&uint32(ib.AccessLocalWrite|accessMWBind) != 0
	switch {
	case remoteWrites != 0 && access&uint32(ib.AccessLocalWrite) == 0, access&^accessKnown != 0:
		return syscall.EINVAL
	case access&accessOnDemand != 0:
		return syscall.EOPNOTSUPP
	case !mapped(c.node.process, start, length, writes):
		return syscall.EFAULT
	}
	return 0
}

func (c *context) regMR(m *uverbs.Message) guest.Reply {
	var req uverbs.RegMRReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	pd, errno := lookup[*domain](&c.handles, req.PDHandle)
	if errno != 0 {
		return failed(errno)
	}
	if errno := c.node.dev.reserve(regions); errno != 0 {
		return failed(errno)
	}
	r, errno := c.register(pd, req.Start, req.Length, req.HCAVA, req.AccessFlags)
	if errno != 0 {
		c.node.dev.release(regions)
		return failed(errno)
	}
	pd.users++
	return done(m, uverbs.RegMRResp{Handle: c.add(r), LKey: r.backend.LKey(), RKey: r.backend.RKey()}, nil)
}

// reregMR makes the region anew, and its keys change; but where only its access is
// another, they stay, as mlx5's do.
func (c *context) reregMR(m *uverbs.Message) guest.Reply {
	var req uverbs.ReregMRReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	const known = uverbs.ReregTranslation | uverbs.ReregPD | uverbs.ReregAccess
	if req.Flags == 0 || req.Flags&^known != 0 {
		return failed(syscall.EINVAL)
	}
	old, errno := lookup[*region](&c.handles, req.MRHandle)
	if errno != 0 {
		return failed(errno)
	}
	pd, start, length, va, access := old.pd, old.start, old.length, old.va, old.access
	if req.Flags&uverbs.ReregPD != 0 {
		if pd, errno = lookup[*domain](&c.handles, req.PDHandle); errno != 0 {
			return failed(errno)
		}
	}
	if req.Flags&uverbs.ReregTranslation != 0 {
		start, length, va = req.Start, req.Length, req.HCAVA
	}
	if req.Flags&uverbs.ReregAccess != 0 {
		access = req.AccessFlags
	}
	if same, ok := old.backend.(verbs.ReaccessibleMR); ok && req.Flags == uverbs.ReregAccess {
		if errno := c.allowed(start, length, access); errno != 0 {
			return failed(errno)
		}
		if err := same.SetAccess(ib.AccessFlags(access) & accessOfBackend); err != nil {
			return failedBy(err)
		}
		old.access = access
		return done(m, uverbs.ReregMRResp{LKey: old.backend.LKey(), RKey: old.backend.RKey()}, nil)
	}
	r, errno := c.register(pd, start, length, va, access)
	if errno != 0 {
		return failed(errno)
	}
	if err := old.backend.Close(); err != nil {
		_ = r.backend.Close()
		return failedBy(err)
	}
	old.pd.users--
	pd.users++
	*old = *r
	return done(m, uverbs.ReregMRResp{LKey: r.backend.LKey(), RKey: r.backend.RKey()}, nil)
}

func (c *context) deregMR(m *uverbs.Message) guest.Reply {
	var req uverbs.HandleReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	r, errno := doomed[*region](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	if err := r.backend.Close(); err != nil {
		return failedBy(err)
	}
	r.pd.users--
	c.node.dev.release(regions)
	c.remove(req.Handle)
	return guest.Reply{}
}

// pinned fails with EFAULT if the program has not the memory that a queue is to lie in:
// length bytes at ring, and a doorbell record of two words.
func (c *context) pinned(ring, length, record uint64) syscall.Errno {
	const words = 8
	if length > 0 && !mapped(c.node.process, ring, length, true) || !mapped(c.node.process, record, words, true) {
		return syscall.EFAULT
	}
	return 0
}

// mapped reports whether a process has memory at all of a range, which it may write if
// writes is set: where it has not, the kernel can't pin it.
func mapped(p *guest.Process, start, length uint64, writes bool) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.PID))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it was only read
	end := start + length
	for lines := bufio.NewScanner(f); lines.Scan() && start < end; {
		var from, to uint64
		var perms string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &perms); err != nil || to <= start {
			continue
		}
		if from > start || !strings.HasPrefix(perms, "r") || writes && !strings.HasPrefix(perms, "rw") {
			return false
		}
		start = to
	}
	return start >= end
}
