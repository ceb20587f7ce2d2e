//go:build ibverbs

package ibverbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"math/bits"
	"strings"
	"syscall"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
)

// Capabilities returns what was found when the device was opened. It queries ports
// and their GIDs again.
func (d *Device) Capabilities() Capabilities {
	c := d.caps
	for n := 1; n <= d.attr.PhysPorts; n++ {
		raw, err := d.queryPort(n)
		if err != nil {
			continue
		}
		p, err := d.Port(n)
		if err != nil {
			continue
		}
		out := PortCapabilities{
			Port: n, LinkLayer: p.LinkName, Netdev: p.Netdev, MaxMTU: p.MaxMTU, MTU: p.ActiveMTU,
			MaxMessageBytes: uint32(raw.max_msg_sz), BestGID: -1, LinkRate: p.LinkRate, State: p.State,
		}
		out.GIDs, _ = d.GIDs(n) // none, then
		if best, err := d.BestGID(n); err == nil {
			out.BestGID = best
		}
		c.Ports = append(c.Ports, out)
	}
	return c
}

// probe fills in caps, and what of attr depends on it.
func (d *Device) probe(a *C.struct_ibv_device_attr_ex, extended bool) {
	c := &d.caps
	c.TimestampMask, c.CoreClockKHz = uint64(a.completion_timestamp_mask), uint64(a.hca_core_clock)
	c.Atomics = map[uint32]string{C.IBV_ATOMIC_NONE: "none", C.IBV_ATOMIC_HCA: "HCA", C.IBV_ATOMIC_GLOB: "global"}[a.orig_attr.atomic_cap]
	c.RawTimestamps = d.probeTimestamps(C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
	c.WallclockTimestamps = d.probeTimestamps(C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
	c.ClockQuery = ability("query_rt_values", d.clockErrno())
	d.realTime = C.shim_mlx5_real_time(d.ctx) != 0
	if d.mode == wallclock && d.realTime {
		c.ClockQuery = Ability{Why: realTimeWhy}
	}
	var m C.struct_shim_mlx5_clock
	switch e := int(C.shim_mlx5_clock(d.ctx, &m)); syscall.Errno(e) {
	case syscall.ENOSYS:
		c.MLX5Clock = Ability{Why: "libmlx5.so.1 is not installed"}
	case syscall.EOPNOTSUPP:
		c.MLX5Clock = Ability{Why: "the device is not driven by mlx5, or its kernel driver does not share the clock"}
	default:
		c.MLX5Clock = ability("mlx5dv_get_clock_info", e)
	}
	d.probeRates(a, extended)
	d.probeODP(a, extended)
	c.InlineBytes = d.probeInline()
	d.attr.MaxInlineData = c.InlineBytes
	d.settleClock()
}

func ability(what string, errno int) Ability {
	if errno == 0 {
		return Ability{Found: true, Why: what + " works"}
	}
	return Ability{Why: fmt.Sprintf("%s: %v", what, syscall.Errno(errno))}
}

// probeTimestamps makes a completion queue with timestamps and destroys it.
func (d *Device) probeTimestamps(flag C.uint64_t) Ability {
	q := (*C.struct_shim_cq)(C.calloc(1, C.sizeof_struct_shim_cq))
	defer C.free(unsafe.Pointer(q))
	if e := C.shim_create_cq(d.calls, d.ctx, 1, nil, flag, q); e != 0 {
		return ability("create_cq_ex with the flag", int(e))
	}
	C.shim_destroy_cq(d.calls, q)
	return ability("create_cq_ex with the flag", 0)
}

// settleClock decides what WC.Timestamp contains.
func (d *Device) settleClock() {
	c := &d.caps
	switch {
	case d.mode == raw && c.RawTimestamps.Found && c.CoreClockKHz > 0 && c.TimestampMask != 0:
		d.attr.CoreClockHz, d.attr.ClockBits = float64(c.CoreClockKHz)*1000, bits.Len64(c.TimestampMask)
	case d.mode == raw && c.RawTimestamps.Found:
		c.RawTimestamps = Ability{Why: fmt.Sprintf("completions have them, but the device does not say of what counter: mask %#x, %d kHz", c.TimestampMask, c.CoreClockKHz)}
	case d.mode == wallclock && c.WallclockTimestamps.Found:
		d.attr.CoreClockHz, d.attr.ClockBits = 1e9, 64
	}
}

// timestampFlag is the flag with which completion queues are created, 0 if the
// device has no timestamps.
func (d *Device) timestampFlag() C.uint64_t {
	switch {
	case d.attr.CoreClockHz == 0:
		return 0
	case d.mode == wallclock:
		return C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
	}
	return C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
}

func (d *Device) timestampsWhyNot() string {
	switch d.mode {
	case off:
		return "the device was opened with timestamps=off"
	case wallclock:
		return d.caps.WallclockTimestamps.Why
	}
	return d.caps.RawTimestamps.Why
}

func (d *Device) probeRates(a *C.struct_ibv_device_attr_ex, extended bool) {
	c, p := &d.caps, &a.packet_pacing_caps
	for _, t := range []struct {
		code int
		name string
	}{{C.IBV_QPT_RC, "RC"}, {C.IBV_QPT_UC, "UC"}, {C.IBV_QPT_UD, "UD"}, {C.IBV_QPT_RAW_PACKET, "RAW_PACKET"}} {
		if p.supported_qpts&(1<<t.code) != 0 {
			c.RateLimitedQPTypes = append(c.RateLimitedQPTypes, t.name)
		}
	}
	c.RateLimitMin, c.RateLimitMax = int64(p.qp_rate_limit_min)*1000, int64(p.qp_rate_limit_max)*1000
	switch {
	case !extended:
		c.RateLimit = Ability{Why: "the driver has no ibv_query_device_ex"}
	case len(c.RateLimitedQPTypes) == 0 || p.qp_rate_limit_max == 0:
		c.RateLimit = Ability{Why: "packet_pacing_caps names no type of queue pair"}
	default:
		c.RateLimit = Ability{Found: true, Why: "packet_pacing_caps: " + strings.Join(c.RateLimitedQPTypes, ", ")}
	}
}

// refusesRates reports whether the device says that it can't limit queue pairs
// of a type.
func (d *Device) refusesRates(t ib.QPType) bool {
	for _, name := range d.caps.RateLimitedQPTypes {
		if name == t.String() {
			return false
		}
	}
	return true
}

func (d *Device) rateLimitWhyNot(t ib.QPType, bps int64) string {
	c := &d.caps
	switch {
	case !c.RateLimit.Found:
		return "the device limits no queue pairs: pace in software"
	case d.refusesRates(t):
		return fmt.Sprintf("the device limits queue pairs of type %s, not %v: pace in software", strings.Join(c.RateLimitedQPTypes, ", "), t)
	case bps != 0 && (bps < c.RateLimitMin || bps > c.RateLimitMax):
		return fmt.Sprintf("%d bit/s: the device takes %d to %d", bps, c.RateLimitMin, c.RateLimitMax)
	}
	return "the queue pair must be in RTS"
}

func (d *Device) probeODP(a *C.struct_ibv_device_attr_ex, extended bool) {
	c, o := &d.caps, &a.odp_caps
	c.ODPImplicit = o.general_caps&C.IBV_ODP_SUPPORT_IMPLICIT != 0
	for _, t := range []struct {
		name string
		caps uint32
	}{{"RC", uint32(o.per_transport_caps.rc_odp_caps)}, {"UC", uint32(o.per_transport_caps.uc_odp_caps)}, {"UD", uint32(o.per_transport_caps.ud_odp_caps)}} {
		if t.caps == 0 {
			continue
		}
		text := t.name + ":"
		for i, op := range []string{"SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ_RECV"} {
			if t.caps&(1<<i) != 0 {
				text += " " + op
			}
		}
		c.ODPTransports = append(c.ODPTransports, text)
	}
	switch {
	case !extended:
		c.ODP = Ability{Why: "the driver has no ibv_query_device_ex"}
	case o.general_caps&C.IBV_ODP_SUPPORT == 0:
		c.ODP = Ability{Why: "odp_caps has no IBV_ODP_SUPPORT"}
	default:
		c.ODP = Ability{Found: true, Why: "odp_caps"}
	}
}

// probeInline finds how many bytes a queue pair sends inline, up to 512, by making
// queue pairs: libibverbs has no attribute for it.
func (d *Device) probeInline() int {
	var pd *C.struct_ibv_pd
	if C.shim_alloc_pd(d.calls, d.ctx, &pd) != 0 {
		return 0
	}
	defer C.shim_dealloc_pd(d.calls, pd)
	q := (*C.struct_shim_cq)(C.calloc(1, C.sizeof_struct_shim_cq))
	defer C.free(unsafe.Pointer(q))
	if C.shim_create_cq(d.calls, d.ctx, 1, nil, 0, q) != 0 {
		return 0
	}
	defer C.shim_destroy_cq(d.calls, q)
	for bytes := 512; bytes > 0; bytes /= 2 {
		init := C.struct_ibv_qp_init_attr{send_cq: q.cq, recv_cq: q.cq, qp_type: uint32(ib.RC), cap: C.struct_ibv_qp_cap{
			max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: C.uint32_t(bytes),
		}}
		var qp *C.struct_ibv_qp
		if C.shim_create_qp(d.calls, pd, &init, &qp) == 0 {
			C.shim_destroy_qp(d.calls, qp)
			return bytes
		}
	}
	return 0
}
