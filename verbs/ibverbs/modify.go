//go:build ibverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// attrMasks pairs the masks of package verbs with libibverbs'.
var attrMasks = []struct {
	of   verbs.QPAttrMask
	mask C.int
}{
	{verbs.AttrState, C.IBV_QP_STATE}, {verbs.AttrAccess, C.IBV_QP_ACCESS_FLAGS}, {verbs.AttrPort, C.IBV_QP_PORT},
	{verbs.AttrPathMTU, C.IBV_QP_PATH_MTU}, {verbs.AttrTimeout, C.IBV_QP_TIMEOUT}, {verbs.AttrRetryCnt, C.IBV_QP_RETRY_CNT},
	{verbs.AttrRNRRetry, C.IBV_QP_RNR_RETRY}, {verbs.AttrRQPSN, C.IBV_QP_RQ_PSN}, {verbs.AttrSQPSN, C.IBV_QP_SQ_PSN},
	{verbs.AttrMaxQPRdAtomic, C.IBV_QP_MAX_QP_RD_ATOMIC}, {verbs.AttrMaxDestRdAtomic, C.IBV_QP_MAX_DEST_RD_ATOMIC},
	{verbs.AttrMinRNRTimer, C.IBV_QP_MIN_RNR_TIMER}, {verbs.AttrDestQPN, C.IBV_QP_DEST_QPN}, {verbs.AttrAV, C.IBV_QP_AV},
	{verbs.AttrQKey, C.IBV_QP_QKEY}, {verbs.AttrPKeyIndex, C.IBV_QP_PKEY_INDEX},
}

// Modify implements verbs.QP. SGIDIndex 0
// with a peer that GID 0 can't reach is taken for "not chosen": see BestGID.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	bad := func(format string, args ...any) error {
		return verbs.Errorf("modify_qp", q.object(), verbs.ErrInvalid, format, args...)
	}
	if q.gone.Load() {
		return closed("modify_qp", q.object())
	}
	c := C.struct_ibv_qp_attr{
		qp_state: uint32(a.State), qp_access_flags: C.uint(a.Access), port_num: C.uint8_t(a.Port), pkey_index: C.uint16_t(a.PKeyIndex), qkey: C.uint32_t(a.QKey),
		rq_psn: C.uint32_t(a.RQPSN), sq_psn: C.uint32_t(a.SQPSN), dest_qp_num: C.uint32_t(a.DestQPN),
		timeout: C.uint8_t(a.Timeout), retry_cnt: C.uint8_t(a.RetryCnt), rnr_retry: C.uint8_t(a.RNRRetry),
		min_rnr_timer: C.uint8_t(a.MinRNRTimer), max_rd_atomic: C.uint8_t(a.MaxRdAtomic), max_dest_rd_atomic: C.uint8_t(a.MaxDestRdAtomic),
	}
	var bits C.int
	for _, m := range attrMasks {
		if mask&m.of != 0 {
			bits |= m.mask
		}
	}
	if mask&verbs.AttrState != 0 && a.State == ib.Init && mask&verbs.AttrPort != 0 && mask&verbs.AttrPKeyIndex == 0 {
		bits |= C.IBV_QP_PKEY_INDEX
		c.pkey_index = 0
	}
	if mask&verbs.AttrPort != 0 && (a.Port < 1 || a.Port > q.dev.attr.PhysPorts) {
		return bad("port %d: the device has ports 1 to %d", a.Port, q.dev.attr.PhysPorts)
	}
	if mask&verbs.AttrPKeyIndex != 0 && a.PKeyIndex != 0 { // every port has the first
		if _, err := q.dev.PKey(max(a.Port, 1), a.PKeyIndex); err != nil {
			return bad("P_Key index %d: %v", a.PKeyIndex, err)
		}
	}
	if mask&verbs.AttrPathMTU != 0 {
		code, ok := mtuCode(a.PathMTU)
		if !ok {
			return bad("path MTU %d: take 256, 512, 1024, 2048 or 4096", a.PathMTU)
		}
		c.path_mtu = code
	}
	if mask&verbs.AttrAV != 0 {
		port := a.AV.Port
		if port == 0 && mask&verbs.AttrPort != 0 {
			port = a.Port
		}
		if port == 0 {
			now, err := q.Query()
			if err != nil {
				return err
			}
			port = now.Port
		}
		var err error
		if c.ah_attr, err = q.dev.route("modify_qp", port, a.AV); err != nil {
			return err
		}
	}
	if e := C.shim_modify_qp(q.dev.calls, q.c.qp, &c, bits); e != 0 {
		return q.modifyFailed(a, mask, int(e))
	}
	if mask&verbs.AttrState != 0 {
		q.changed(a.State)
	}
	return nil
}

// modifyFailed says what may be wrong.
func (q *QP) modifyFailed(a verbs.QPAttr, mask verbs.QPAttrMask, errno int) error {
	if errno == C.EINVAL && mask&verbs.AttrState != 0 {
		if now, err := q.Query(); err == nil && !now.State.CanBecome(a.State) {
			return as(fail("modify_qp", q.object(), errno, "%v can't become %v", now.State, a.State), verbs.ErrState)
		}
	}
	switch {
	case errno == C.EINVAL && mask&verbs.AttrAV != 0:
		return fail("modify_qp", q.object(), errno, "an attribute that the device refuses: see ibv_modify_qp(3) for the attributes of each step, and that GID %d reaches %v", a.AV.SGIDIndex, a.AV.GID)
	case errno == C.EINVAL:
		return fail("modify_qp", q.object(), errno, "an attribute is missing or refused: see ibv_modify_qp(3) for the attributes of each step")
	case errno == C.ENETUNREACH || errno == C.EHOSTUNREACH || errno == C.ETIMEDOUT:
		return fail("modify_qp", q.object(), errno, "there is no way to %v: see ip route get, and whether its neighbour answers", a.AV.GID)
	}
	return fail("modify_qp", q.object(), errno, "")
}

// Query implements verbs.QP.
func (q *QP) Query() (verbs.QPAttr, error) {
	if q.gone.Load() {
		return verbs.QPAttr{}, closed("query_qp", q.object())
	}
	var c C.struct_ibv_qp_attr
	var init C.struct_ibv_qp_init_attr
	if e := C.shim_query_qp(q.dev.calls, q.c.qp, &c, &init); e != 0 {
		return verbs.QPAttr{}, fail("query_qp", q.object(), int(e), "")
	}
	a := verbs.QPAttr{
		State: ib.QPState(c.qp_state), Access: ib.AccessFlags(c.qp_access_flags), Port: int(c.port_num), PKeyIndex: int(c.pkey_index), QKey: uint32(c.qkey),
		PathMTU: mtuOf(c.path_mtu), DestQPN: uint32(c.dest_qp_num), RQPSN: uint32(c.rq_psn), SQPSN: uint32(c.sq_psn),
		Timeout: uint8(c.timeout), RetryCnt: uint8(c.retry_cnt), RNRRetry: uint8(c.rnr_retry), MinRNRTimer: uint8(c.min_rnr_timer),
		MaxRdAtomic: uint8(c.max_rd_atomic), MaxDestRdAtomic: uint8(c.max_dest_rd_atomic), Cap: capOf(&init.cap),
	}
	ah := &c.ah_attr
	if ah.is_global != 0 {
		a.AV = verbs.AddressVector{
			GID: netip.AddrFrom16(ah.grh.dgid).Unmap(), SGIDIndex: int(ah.grh.sgid_index), TrafficClass: uint8(ah.grh.traffic_class),
			HopLimit: uint8(ah.grh.hop_limit), FlowLabel: uint32(ah.grh.flow_label),
		}
	}
	a.AV.LID, a.AV.Port, a.AV.SL, a.AV.StaticRate = uint16(ah.dlid), int(ah.port_num), uint8(ah.sl), ib.StaticRate(ah.static_rate).BitsPerSecond()
	return a, nil
}

// route is the address vector of what is sent from a port.
func (d *Device) route(op string, port int, av verbs.AddressVector) (C.struct_ibv_ah_attr, error) {
	var ah C.struct_ibv_ah_attr
	bad := func(cause error, format string, args ...any) (C.struct_ibv_ah_attr, error) {
		return ah, verbs.Errorf(op, d.name, cause, format, args...)
	}
	p, err := d.queryPort(port)
	if err != nil {
		return ah, err
	}
	rate, err := rateCode(av.StaticRate)
	if err != nil {
		return bad(verbs.ErrInvalid, "%v", err)
	}
	ah.port_num, ah.sl, ah.static_rate = C.uint8_t(port), C.uint8_t(av.SL), C.uint8_t(rate)
	infiniband := p.link_layer == C.IBV_LINK_LAYER_INFINIBAND
	to := av.GID.WithZone("")
	switch {
	case infiniband && av.LID == 0:
		return bad(verbs.ErrInvalid, "port %d is InfiniBand, where the way to a peer is by its LID: set AddressVector.LID", port)
	case infiniband && av.SL > 15:
		return bad(verbs.ErrInvalid, "service level %d: 0 to 15", av.SL)
	case infiniband && (!to.IsValid() || to.IsUnspecified()):
		ah.dlid = C.uint16_t(av.LID) // in the same subnet
		return ah, nil
	case !infiniband && av.LID != 0:
		return bad(verbs.ErrInvalid, "LID %d, but port %d is Ethernet, whose peers have a GID and no LID", av.LID, port)
	case !to.IsValid() || to.IsUnspecified():
		return bad(verbs.ErrInvalid, "%v is not the address of a peer", av.GID)
	case av.SGIDIndex < 0 || av.SGIDIndex >= int(p.gid_tbl_len) || av.SGIDIndex > 255:
		return bad(verbs.ErrInvalid, "port %d has no GID %d: its table has %d entries", port, av.SGIDIndex, int(p.gid_tbl_len))
	case !infiniband && av.SL > 7:
		return bad(verbs.ErrInvalid, "service level %d: 0 to 7", av.SL)
	case av.FlowLabel > 0xfffff:
		return bad(verbs.ErrInvalid, "flow label %#x: it has 20 bits", av.FlowLabel)
	}
	index := av.SGIDIndex
	if index == 0 && !infiniband {
		if e, err := d.GIDEntry(port, 0); err != nil || !e.reaches(to) {
			if best, err := d.gidFor(port, to); err == nil {
				index = best
			}
		}
	}
	ah.is_global, ah.dlid = 1, C.uint16_t(av.LID)
	ah.grh.dgid = to.As16()
	ah.grh.sgid_index, ah.grh.traffic_class, ah.grh.flow_label = C.uint8_t(index), C.uint8_t(av.TrafficClass), C.uint32_t(av.FlowLabel)
	if ah.grh.hop_limit = C.uint8_t(av.HopLimit); av.HopLimit == 0 {
		ah.grh.hop_limit = 64
	}
	return ah, nil
}

// rateCode is the code of the highest static rate up to bps; 0 for none.
func rateCode(bps int64) (ib.StaticRate, error) {
	rate := ib.StaticRateAtMost(bps)
	if rate == 0 && bps != 0 {
		return 0, fmt.Errorf("a static rate of %d bit/s: the least is 2.5 Gbit/s", bps)
	}
	return rate, nil
}
