//go:build ibverbs

package main

// #include <errno.h>
// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/libsluice/internal/settings"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// slForgetCQ lets go of a CQ that its owner destroys.
//
//export slForgetCQ
func slForgetCQ(id C.uint32_t) C.int {
	world.mu.Lock()
	defer world.mu.Unlock()
	c := world.cqs.get(id)
	var errs []error
	var left []attachment
	for _, a := range c.shims {
		if err := a.paced.Close(); err != nil {
			errs, left = append(errs, err), append(left, a)
			continue
		}
		errs = append(errs, a.inner.Close())
	}
	if err := errors.Join(errs...); err != nil {
		world.cqs.set(uint32(id), &cq{handle: c.handle, channel: c.channel, shims: left})
		return failed(err)
	}
	delete(world.cqIDs, c.handle)
	world.cqs.remove(uint32(id))
	return 0
}

// slForgetChannel lets go of a channel, and destroys the shims' own CQs on it.
//
//export slForgetChannel
func slForgetChannel(id C.uint32_t) C.int {
	world.mu.Lock()
	defer world.mu.Unlock()
	c := world.channels.get(id)
	var errs []error
	var left []chanAttachment
	for _, a := range c.shims {
		if err := a.paced.Close(); err != nil {
			errs, left = append(errs, err), append(left, a)
			continue
		}
		errs = append(errs, a.inner.Close())
	}
	if err := errors.Join(errs...); err != nil {
		world.channels.set(uint32(id), &channel{handle: c.handle, shims: left})
		return failed(err)
	}
	delete(world.chanIDs, c.handle)
	world.channels.remove(uint32(id))
	return 0
}

// slForgetContext lets go of a context whose queue pairs, CQs and channels are
// gone.
//
//export slForgetContext
func slForgetContext(ctx *C.struct_ibv_context) C.int {
	world.mu.Lock()
	defer world.mu.Unlock()
	d := world.devices[unsafe.Pointer(ctx)]
	if d == nil {
		return 0
	}
	for set, s := range d.shims {
		if err := s.endThread(); err != nil {
			slog.Debug("progress thread", "device", d.ibv.Name(), "error", err)
		}
		if err := s.s.CloseAdopted(); err != nil {
			return failed(err)
		}
		world.shims.remove(uint32(s.c.id))
		s.keep()
		C.free(unsafe.Pointer(s.c))
		delete(d.shims, set)
	}
	if err := d.ibv.Close(); err != nil {
		return failed(err)
	}
	delete(world.devices, unsafe.Pointer(ctx))
	return 0
}

// totals is what queue pairs did in all.
type totals struct {
	qps                                     int
	messages, failed, segments, bytes, cnps uint64
	rtt                                     paced.RTTHistogram
}

func (t *totals) add(s *paced.QPStats) {
	t.qps++
	t.messages += s.Messages
	t.failed += s.Failed
	t.segments += s.Segments
	t.bytes += uint64(s.SegmentBytes)
	t.cnps += s.CNPs
	t.rtt.Sum += s.RTT.Sum
	for i, n := range s.RTT.Counts {
		t.rtt.Counts[i] += n
	}
}

func (t *totals) merge(o *totals) {
	t.add(&paced.QPStats{
		Messages: o.messages, Failed: o.failed, Segments: o.segments, SegmentBytes: units.Bytes(o.bytes), CNPs: o.cnps, RTT: o.rtt,
	})
	t.qps += o.qps - 1
}

func (s *shim) name() string {
	engine := s.engine
	if engine == "" {
		engine = "none"
	}
	return s.dev.ibv.Name() + ", engine " + engine
}

// keep enters what a shim did among that of closed devices.
func (s *shim) keep() {
	t := world.gone[s.name()]
	if t == nil {
		t = &totals{}
		world.gone[s.name()] = t
	}
	t.merge(&s.totals)
}

// slReport writes what all queue pairs did to standard error.
//
//export slReport
func slReport() {
	world.mu.Lock()
	defer world.mu.Unlock()
	all := map[string]*totals{}
	for name, t := range world.gone {
		c := *t
		all[name] = &c
	}
	for _, d := range world.devices {
		for _, s := range d.shims {
			t := all[s.name()]
			if t == nil {
				t = &totals{}
				all[s.name()] = t
			}
			t.merge(&s.totals)
			for _, q := range s.s.QPs() {
				var stats paced.QPStats
				q.Stats(&stats)
				t.add(&stats)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		fmt.Fprintf(os.Stderr, "sluice: %s: %d queue pairs, %d requests (%d failed), %d segments, %d bytes, %d CNPs",
			name, t.qps, t.messages, t.failed, t.segments, t.bytes, t.cnps)
		if t.rtt.Count() > 0 {
			fmt.Fprintf(os.Stderr, ", RTT p50 %v p99 %v", t.rtt.Quantile(0.5), t.rtt.Quantile(0.99))
		}
		fmt.Fprintln(os.Stderr)
	}
}

// slStats fills in the statistics of a queue pair.
//
//export slStats
func slStats(id C.uint32_t, out *C.struct_sluice_stats) C.int {
	q := world.qps.get(id)
	var s paced.QPStats
	q.q.Stats(&s)
	room := unsafe.Slice((*byte)(unsafe.Pointer(&out.engine[0])), len(out.engine))
	room[copy(room[:len(room)-1], q.shim.engine)] = 0
	out.rate, out.window, out.outstanding = C.uint64_t(s.Rate), C.uint64_t(s.Window), C.uint64_t(s.Outstanding)
	out.messages, out.failed = C.uint64_t(s.Messages), C.uint64_t(s.Failed)
	out.segments, out.segment_bytes, out.cnps = C.uint64_t(s.Segments), C.uint64_t(s.SegmentBytes), C.uint64_t(s.CNPs)
	h := &s.RTT
	if n := h.Count(); n > 0 {
		ns := func(t units.Time) C.uint64_t { return C.uint64_t(t / units.Nanosecond) }
		out.rtt_samples = C.uint64_t(n)
		out.rtt_mean_ns = ns(units.FromDuration(h.Sum / time.Duration(n)))
		out.rtt_p50_ns, out.rtt_p90_ns, out.rtt_p99_ns = ns(h.Quantile(0.5)), ns(h.Quantile(0.9)), ns(h.Quantile(0.99))
		out.rtt_max_ns = ns(h.Quantile(1))
	}
	return 0
}

// slSchemes returns the engines that work over libibverbs, a NULL-terminated array
// that is never freed.
//
//export slSchemes
func slSchemes() **C.char {
	var names []string
	for _, s := range cc.Schemes() {
		if s.Telemetry == telemetry.None && !s.EIN && s.NewReceiver == nil && !s.Oracle {
			names = append(names, s.Name)
		}
	}
	array := (**C.char)(C.calloc(C.size_t(len(names)+1), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	for i, name := range names {
		unsafe.Slice(array, len(names)+1)[i] = C.CString(name)
	}
	return array
}

// slWanted says whether queue pairs of a device are to be paced, 1 or 0, under
// the preload library; a negative errno if its configuration is wrong.
//
//export slWanted
func slWanted(ctx *C.struct_ibv_context, stats *C.int) C.int {
	e, err := environment()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		failed(err)
		return -C.EINVAL
	}
	if e.Stats {
		*stats = 1
	}
	if settings.Matches(e.Devices, C.GoString(&ctx.device.name[0])) {
		return 1
	}
	return 0
}
