//go:build ibverbs

package ibverbs

// #include "shim.h"
import "C"

import (
	"syscall"

	"github.com/sluice-rdma/sluice/verbs"
)

// clockErrno reads the counter and returns the errno.
func (d *Device) clockErrno() int {
	var s, ns C.int64_t
	return int(C.shim_read_clock(d.calls, d.ctx, &s, &ns))
}

// ReadClock implements verbs.ClockReader: the counter of WC.Timestamp, by
// ibv_query_rt_values_ex. Drivers return the raw counter in tv_nsec, with tv_sec 0 (mlx4
// and mlx5 do); a driver that splits it counts nanoseconds. On a device opened with
// timestamps=wallclock, ReadClock converts the counter to nanoseconds by
// mlx5dv_get_clock_info, as libmlx5 does timestamps, and fails where the driver lacks that
// call. It fails as well where completions carry the NIC's real-time clock, which no call
// of libibverbs reads: the interface's PTP clock is that clock.
func (d *Device) ReadClock() (uint64, error) {
	if d.mode == wallclock && d.realTime {
		return 0, verbs.Errorf("query_rt_values", d.name, verbs.ErrNotSupported, "%s", realTimeWhy)
	}
	var s, ns C.int64_t
	if e := C.shim_read_clock(d.calls, d.ctx, &s, &ns); e != 0 {
		return 0, fail("query_rt_values", d.name, int(e), "")
	}
	ticks := uint64(s)*1e9 + uint64(ns)
	if d.mode != wallclock {
		return ticks, nil
	}
	c, err := d.MLX5Clock()
	if err != nil {
		return 0, err
	}
	return c.Nanoseconds(ticks), nil
}

const realTimeWhy = "completions carry the NIC's real-time clock, and this reads another counter: calibrate against the interface's PTP clock, or open the device without timestamps=wallclock"

// MLX5Clock says how the counter of an mlx5 device and its clock are related
// (struct mlx5dv_clock_info). The kernel renews it every few seconds.
type MLX5Clock struct {
	Nanoseconds0     uint64 // the clock when the counter was LastCycles
	LastCycles, Frac uint64
	Mult, Shift      uint32
	Mask             uint64
}

// MLX5Clock asks the driver, for devices of mlx5's (mlx5dv_get_clock_info).
// libmlx5 is loaded at run time: programs need not be linked with it.
func (d *Device) MLX5Clock() (MLX5Clock, error) {
	var c C.struct_shim_mlx5_clock
	if e := C.shim_mlx5_clock(d.ctx, &c); e != 0 {
		switch syscall.Errno(e) {
		case syscall.ENOSYS:
			return MLX5Clock{}, fail("mlx5dv_get_clock_info", d.name, int(e), "libmlx5.so.1 can't be loaded: install ibverbs-providers (rdma-core)")
		case syscall.EOPNOTSUPP:
			return MLX5Clock{}, fail("mlx5dv_get_clock_info", d.name, int(e), "only devices of mlx5 have it")
		}
		return MLX5Clock{}, fail("mlx5dv_get_clock_info", d.name, int(e), "")
	}
	return MLX5Clock{
		Nanoseconds0: uint64(c.nsec), LastCycles: uint64(c.last_cycles), Frac: uint64(c.frac),
		Mult: uint32(c.mult), Shift: uint32(c.shift), Mask: uint64(c.mask),
	}, nil
}

// Nanoseconds is the clock when the counter was at ticks: the kernel's rule for a
// timecounter, nsec + ((delta*mult + frac) >> shift). The same holds backwards for
// ticks up to half the counter's range before LastCycles.
func (c MLX5Clock) Nanoseconds(ticks uint64) uint64 {
	after := (ticks - c.LastCycles) & c.Mask
	if before := (c.LastCycles - ticks) & c.Mask; before < after {
		return c.Nanoseconds0 - (before*uint64(c.Mult)-c.Frac)>>c.Shift
	}
	return c.Nanoseconds0 + (after*uint64(c.Mult)+c.Frac)>>c.Shift
}

var _ verbs.ClockReader = (*Device)(nil)
