//go:build linux

package virtual

import (
	"net/netip"
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// addressHandle is the kernel's part of a program's address handle: libmlx5 has the
// address itself, and puts it into each datagram's WQE.
type addressHandle struct{ pd *domain }

func (c *context) createAH(m *uverbs.Message) guest.Reply {
	var req uverbs.CreateAHReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	pd, errno := lookup[*domain](&c.handles, req.PDHandle)
	if errno != 0 {
		return failed(errno)
	}
	a := &req.Attr
	if a.PortNum != 1 || a.IsGlobal == 0 {
		return failed(syscall.EINVAL)
	}
	av, errno := c.node.dev.addressVector(a.DGID, a.SGIDIndex)
	if errno != 0 {
		return failed(errno)
	}
	ah, err := pd.backend.CreateAH(av) // whether there is a way
	if err != nil {
		return failedBy(err)
	}
	if err := ah.Close(); err != nil {
		return failedBy(err)
	}
	if errno := c.node.dev.reserve(addressHandles); errno != 0 {
		return failed(errno)
	}
	pd.users++
	driver := uverbs.Mlx5CreateAHResp{DMAC: macOf(av.GID)}
	driver.ResponseLength = uint32(min(m.DriverOut(), uverbs.Sizeof(driver)))
	return done(m, uverbs.HandleResp{Handle: c.add(&addressHandle{pd})}, driver)
}

func (c *context) destroyAH(m *uverbs.Message) guest.Reply {
	var req uverbs.HandleReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	a, errno := doomed[*addressHandle](&c.handles, req.Handle)
	if errno != 0 {
		return failed(errno)
	}
	a.pd.users--
	c.node.dev.release(addressHandles)
	c.remove(req.Handle)
	return guest.Reply{}
}

// addressVector returns a program's destination: a GID that is an IP address, from a GID of
// the device.
func (d *Device) addressVector(dgid [16]byte, sgidIndex uint8) (verbs.AddressVector, syscall.Errno) {
	gids := d.gids()
	if int(sgidIndex) >= len(gids) {
		return verbs.AddressVector{}, syscall.EINVAL
	}
	to := netip.AddrFrom16(dgid)
	if own := gids[sgidIndex]; own.Zone() != "" { // the back end's port, which its peers have too
		to = to.WithZone(own.Zone())
	} else {
		to = to.Unmap()
	}
	return verbs.AddressVector{GID: to, SGIDIndex: int(sgidIndex)}, 0
}

// macOf makes a MAC address up for a peer: the back end finds its neighbours itself, and
// nobody reads it but programs that print it. It is one for each address, locally
// administered.
func macOf(a netip.Addr) [6]byte {
	b := a.As16()
	return [6]byte{2, 0, b[12], b[13], b[14], b[15]}
}
