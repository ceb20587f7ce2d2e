//go:build linux

package virtual

import (
	"encoding/binary"
	"syscall"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/uverbs"
)

// Limits of the rings that libmlx5 lays out, as mlx5's firmware has them.
const (
	logRing     = 15 // of the longest ring, in blocks of 64 bytes or receives
	maxSendWQE  = 1024
	maxRecvWQE  = 512
	cacheLine   = 64
	maxCQBuffer = 1 << 22
)

// dumpFillKey is the key that libmlx5 gives scatter entries whose data is to be dropped.
const dumpFillKey = 0x700

func (d *Device) contextResp() uverbs.Mlx5ContextResp {
	r := uverbs.Mlx5ContextResp{
		QPTabSize: uint32(min(d.model.maxQP, d.attr.MaxQP)), BFRegSize: registerBytes, CacheLineSize: cacheLine,
		MaxSQDescSz: maxSendWQE, MaxRQDescSz: maxRecvWQE, MaxSendWQEBB: 1 << logRing, MaxRecvWR: 1 << logRing,
		MaxSRQRecvWR: uint32(min(d.model.maxSRQWR, d.attr.MaxSRQWR)), NumPorts: 1,
		CompMask: uverbs.Mlx5CoreClockOffset | uverbs.Mlx5DumpFillMKey, CQEVersion: 1,
		CmdsSuppUHW: uverbs.Mlx5UHWQueryDevice | uverbs.Mlx5UHWCreateAH, EthMinInline: uverbs.Mlx5InlineNone, ClockInfoVersions: uverbs.Mlx5ClockInfoV1,
		LogUARSize: 12, NumUARsPerPage: 1, DumpFillMKeyVal: dumpFillKey,
	}
	if d.cfg.RealTime {
		r.CompMask |= uverbs.Mlx5RealTimeTS
	}
	return r
}

// device_cap_flags that hold here, among ConnectX's own (enum
// ib_uverbs_device_cap_flags): BAD_PKEY_CNTR, BAD_QKEY_CNTR, CHANGE_PHY_PORT,
// PORT_ACTIVE_EVENT, SYS_IMAGE_GUID, RC_RNR_NAK_GEN.
const capFlags = 1<<1 | 1<<2 | 1<<5 | 1<<10 | 1<<11 | 1<<12

const (
	mellanox  = 0x02c9 // the vendor's OUI
	atomicHCA = 1      // IBV_ATOMIC_HCA
)

func (d *Device) baseAttributes() uverbs.QueryDeviceResp {
	m, a := &d.model, &d.attr
	r := uverbs.QueryDeviceResp{
		FWVer: m.fwVer, MaxMRSize: a.MaxMRSize, PageSizeCap: 0xfffffffffffff000, VendorID: mellanox, VendorPartID: m.partID,
		MaxQP: smaller(m.maxQP, a.MaxQP), MaxQPWR: smaller(m.maxQPWR, a.MaxQPWR), DeviceCapFlags: capFlags,
		MaxSGE: smaller(m.maxSGE, a.MaxSGE), MaxSGERD: smaller(m.maxSGE, a.MaxSGE),
		MaxCQ: smaller(m.maxCQ, a.MaxCQ), MaxCQE: smaller(m.maxCQE, a.MaxCQE-1), MaxMR: smaller(m.maxMR, a.MaxMR), MaxPD: smaller(m.maxPD, a.MaxPD),
		MaxQPRdAtom: smaller(m.maxRdAtom, a.MaxQPRdAtom), MaxResRdAtom: uint32(m.maxResRdAtom), MaxQPInitRdAtom: smaller(m.maxRdAtom, a.MaxQPInitRdAtom),
		MaxAH: 1<<31 - 1, MaxSRQ: smaller(m.maxSRQ, a.MaxSRQ), MaxSRQWR: smaller(m.maxSRQWR, a.MaxSRQWR), MaxSRQSGE: smaller(maxRecvWQE/16-1, a.MaxSGE),
		MaxPKeys: 1, LocalCAAckDelay: 16, PhysPortCnt: 1,
	}
	if a.Atomics {
		r.AtomicCap = atomicHCA
	}
	binary.BigEndian.PutUint64(r.NodeGUID[:], d.guid)
	r.SysImageGUID = r.NodeGUID
	return r
}

// clockWidth returns the width of the counter in completions.
func (d *Device) clockWidth() int {
	if d.clock.simulated {
		return d.attr.ClockBits
	}
	return clockBits
}

func smaller(a, b int) uint32 { return uint32(max(0, min(a, b))) }

func (c *context) queryDevice(m *uverbs.Message) guest.Reply {
	return done(m, c.node.dev.baseAttributes(), nil)
}

func (c *context) queryDeviceEx(m *uverbs.Message) guest.Reply {
	var req uverbs.QueryDeviceExReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if req.CompMask != 0 || req.Reserved != 0 {
		return failed(syscall.EINVAL)
	}
	d := c.node.dev
	core := uverbs.QueryDeviceExResp{
		Base: d.baseAttributes(), TimestampMask: 1<<d.clockWidth() - 1, HCACoreClock: uint64(d.model.clockHz / 1000), DeviceCapFlagsEx: capFlags,
		MaxCQModerationCount: maxModerationCount, MaxCQModerPeriod: maxModerationPeriod,
	}
	core.ResponseLength = uint32(min(m.CoreOut(), uverbs.Sizeof(core)))
	driver := uverbs.Mlx5QueryDeviceResp{
		// ConnectX paces raw packets only, from 1 kb/s to its line rate.
		CQECompMaxNum: mlx5.MaxSession, CQECompFormats: uint32(mlx5.CompressHash | mlx5.CompressSum),
		RateLimitMin: 1, RateLimitMax: uint32(d.model.lineRate / units.Kbps), RateSupportedQPTs: 1 << uverbs.QPRawPacket,
	}
	driver.ResponseLength = uint32(min(m.DriverOut(), uverbs.Sizeof(driver)))
	return done(m, core, driver)
}

// What a completion queue's context in mlx5 has room for: cq_max_count and cq_period, in
// microseconds.
const (
	maxModerationCount  = 1<<16 - 1
	maxModerationPeriod = 1<<12 - 1
)

// Codes of QueryPortResp.
const (
	ethernet     = 2             // IBV_LINK_LAYER_ETHERNET
	linkUp       = 5             // IBV_PORT_PHYS_STATE_LINK_UP
	linkDisabled = 3             // IBV_PORT_PHYS_STATE_DISABLED
	portCapFlags = 1<<16 | 1<<26 // CM and IP-based GIDs, as RoCE has them
	grhRequired  = 1             // IBV_QPF_GRH_REQUIRED
	maxPortMsg   = mlx5.MaxMessage
)

func (c *context) queryPort(m *uverbs.Message) guest.Reply {
	var req uverbs.QueryPortReq
	if errno := m.Request(&req); errno != 0 {
		return failed(errno)
	}
	if req.PortNum != 1 {
		return failed(syscall.EINVAL)
	}
	return done(m, c.node.dev.portResp(), nil)
}

func (d *Device) portResp() uverbs.QueryPortResp {
	p := d.Port()
	r := uverbs.QueryPortResp{
		PortCapFlags: portCapFlags, MaxMsgSz: maxPortMsg, GIDTblLen: uint32(p.GIDs), PKeyTblLen: 1,
		State: uint8(p.State), MaxMTU: mtuCode(p.MaxMTU), ActiveMTU: mtuCode(p.ActiveMTU),
		PhysState: linkUp, LinkLayer: ethernet, Flags: grhRequired,
	}
	if p.State == verbs.PortDown {
		r.PhysState = linkDisabled
	}
	r.ActiveWidth, r.ActiveSpeed = lanes(units.Rate(p.LinkRate))
	return r
}

// lanes are the codes of the width and the speed of a link that is at least as fast as
// rate (ibv_port_attr; enum ib_port_speed), or of the fastest.
func lanes(rate units.Rate) (width, speed uint8) {
	const one, four = 1, 2
	for _, l := range []struct {
		lane  units.Rate
		speed uint8
	}{{2500 * units.Mbps, 1}, {5 * units.Gbps, 2}, {10 * units.Gbps, 4}, {25 * units.Gbps, 32}, {50 * units.Gbps, 64}, {100 * units.Gbps, 128}} {
		switch {
		case rate <= l.lane:
			return one, l.speed
		case rate <= 4*l.lane:
			return four, l.speed
		}
	}
	return four, 128
}

// mtuCode is an MTU as ibv_mtu has it: 1 for 256 to 5 for 4096.
func mtuCode(m ib.MTU) uint8 {
	for code := uint8(1); code <= 5; code++ {
		if mtuOf(code) == m {
			return code
		}
	}
	return 0
}

// mtuOf is the MTU of a code, and 0 for another one.
func mtuOf(code uint8) ib.MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}
