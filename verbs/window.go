package verbs

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
)

// MW is a memory window (ibv_mw): a key that lets peers reach a part of a region, with
// rights of its own, and that a request binds and another takes away.
type MW interface {
	Type() ib.MWType
	// RKey returns the key of the newest bind that was carried out; before the first, a
	// key that allows nothing.
	RKey() uint32
	// Close ends the key, bound or not.
	Close() error
}

// WindowPD is a PD that makes memory windows.
type WindowPD interface {
	// AllocMW makes a window that is bound to nothing (ibv_alloc_mw). It fails with
	// ErrNotSupported where the device does not have that type.
	AllocMW(ib.MWType) (MW, error)
}

// AllocMW makes a memory window of a protection domain. It fails with ErrNotSupported
// where the device has none.
func AllocMW(pd PD, t ib.MWType) (MW, error) {
	if w, ok := pd.(WindowPD); ok {
		return w.AllocMW(t)
	}
	return nil, Errorf("alloc_mw", "", ErrNotSupported, "the device has no memory windows")
}

// BindInfo names the memory to which a window is bound (ibv_mw_bind_info).
type BindInfo struct {
	MR MR // of the window's protection domain, registered with ib.AccessMWBind
	// Addr and Length are a range within MR. A Length of 0 takes the key of a window of
	// type 1 away; one of type 2 is invalidated instead, by ib.WRLocalInv or the peer's
	// ib.WRSendWithInv.
	Addr, Length uint64
	// Access holds the peers' rights: remote reads, and, where MR has ib.AccessLocalWrite,
	// remote writes and atomics.
	Access ib.AccessFlags
}

// BindMW returns the request that binds mw on a queue pair of its protection domain
// (IBV_WR_BIND_MW, ibv_bind_mw). Its RKey is the key that the window has when the request
// has completed: the next one (ib.IncRKey). The application may set another of the same
// upper 24 bits for a window of type 2, unlike the last. It sets WRID and Flags, too.
//
// A window of type 1 may be bound anew at any time, which ends its last key. One of type 2
// must not be bound: it is until it is invalidated, or its queue pair is reset or
// destroyed. A bind that is not allowed completes with ib.WCMWBindErr, and its queue pair
// is in ERR. A region can't be deregistered while a window is bound to it.
func BindMW(mw MW, b BindInfo) SendWR {
	wr := SendWR{
		Opcode: ib.WRBindMW, RKey: ib.IncRKey(mw.RKey()),
		RemoteAddr: b.Addr, CompareAdd: b.Length, Imm: uint32(b.Access),
	}
	if b.MR != nil {
		wr.Swap = uint64(b.MR.LKey())
	}
	return wr
}

// MWRights are the rights that a window may have.
const MWRights = ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic

// checkBind checks a request that binds a window.
func checkBind(wr *SendWR) error {
	if access := ib.AccessFlags(wr.Imm); access&^MWRights != 0 {
		return fmt.Errorf("a memory window with access %v: it has some of %v", access, MWRights)
	}
	if len(wr.SGL) > 0 {
		return fmt.Errorf("%v with %d SGEs: BindMW says where the window's fields are", wr.Opcode, len(wr.SGL))
	}
	return checkHandle(wr)
}
