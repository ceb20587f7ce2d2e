//go:build ibverbs

package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/libsluice/internal/settings"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// device is a context of the program.
type device struct {
	ctx   unsafe.Pointer
	ibv   *ibverbs.Device
	shims map[settings.Settings]*shim
}

// shim is a paced.Shim over a device.
type shim struct {
	dev    *device
	s      *paced.Shim
	c      *C.struct_sl_shim
	engine string
	hidden map[unsafe.Pointer]*ibverbs.CQ // the CQs of segments; guarded by world.mu
	stop   func() error                   // ends the progress thread; nil without one
	totals totals                         // of queue pairs that are gone
}

// cq is a CQ of the program, as each shim that has queue pairs on it sees it.
type cq struct {
	handle  unsafe.Pointer
	channel *channel // nil if it has none
	shims   []attachment
}

type attachment struct {
	shim  *shim
	inner verbs.CQ
	paced *paced.CQ
}

// channel is a completion channel of the program, likewise.
type channel struct {
	handle unsafe.Pointer
	shims  []chanAttachment
}

type chanAttachment struct {
	shim  *shim
	inner verbs.CompChannel
	paced verbs.CompChannel
}

type qp struct {
	shim *shim
	pd   verbs.PD
	q    *paced.QP
	list []verbs.SendWR // scratch of slPostWhole
}

// list is objects by small numbers from 1, which C keeps. Reading takes no lock.
type list[T any] struct {
	all  atomic.Pointer[[]*T]
	free []uint32 // guarded by world.mu
}

func (l *list[T]) get(id C.uint32_t) *T { return (*l.all.Load())[id] }

func (l *list[T]) add(v *T) uint32 {
	var old []*T
	if p := l.all.Load(); p != nil {
		old = *p
	} else {
		old = []*T{nil}
	}
	var id uint32
	if n := len(l.free); n > 0 {
		id, l.free = l.free[n-1], l.free[:n-1]
		old = append([]*T(nil), old...)
		old[id] = v
	} else {
		id = uint32(len(old))
		old = append(old[:len(old):len(old)], v)
	}
	l.all.Store(&old)
	return id
}

func (l *list[T]) set(id uint32, v *T) {
	all := append([]*T(nil), *l.all.Load()...)
	all[id] = v
	l.all.Store(&all)
}

func (l *list[T]) remove(id uint32) {
	l.set(id, nil)
	l.free = append(l.free, id)
}

// world is all that the process has.
var world = struct {
	mu       sync.Mutex // guards the making and unmaking of objects
	devices  map[unsafe.Pointer]*device
	cqIDs    map[unsafe.Pointer]uint32
	chanIDs  map[unsafe.Pointer]uint32
	shims    list[shim]
	cqs      list[cq]
	channels list[channel]
	qps      list[qp]
	gone     map[string]*totals // of closed devices, by device and engine
}{
	devices: map[unsafe.Pointer]*device{},
	cqIDs:   map[unsafe.Pointer]uint32{},
	chanIDs: map[unsafe.Pointer]uint32{},
	gone:    map[string]*totals{},
}

// environment is the settings of a program under the preload library.
var environment = sync.OnceValues(func() (settings.Environment, error) {
	e, err := settings.FromEnvironment(os.Environ(), os.ReadFile)
	if e.Debug {
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	} else {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
	return e, err
})

// shimOf returns the shim over a context with these settings.
func shimOf(ctx unsafe.Pointer, set settings.Settings) (*shim, error) {
	config, err := set.Config()
	if err != nil {
		return nil, err
	}
	d := world.devices[ctx]
	if d == nil {
		var calls C.struct_sluice_calls
		C.sl_calls_for_go((*C.struct_ibv_context)(ctx), &calls)
		ibv, err := ibverbs.Adopt(ctx, (*ibverbs.Calls)(unsafe.Pointer(&calls.ibv)))
		if err != nil {
			return nil, err
		}
		d = &device{ctx: ctx, ibv: ibv, shims: map[settings.Settings]*shim{}}
		world.devices[ctx] = d
		slog.Debug("device adopted", "device", ibv.Name())
	}
	if s := d.shims[set]; s != nil {
		return s, nil
	}
	p, err := paced.Wrap(d.ibv, config)
	if err != nil {
		return nil, err
	}
	s := &shim{dev: d, s: p, c: (*C.struct_sl_shim)(C.calloc(1, C.sizeof_struct_sl_shim)), engine: set.EngineName(), hidden: map[unsafe.Pointer]*ibverbs.CQ{}}
	s.c.id = C.uint32_t(world.shims.add(s))
	d.shims[set] = s
	if set.ProgressThread {
		s.needThread()
	}
	slog.Debug("pacing", "device", d.ibv.Name(), "engine", s.engine, "segment", config.Segment, "rate", set.Rate)
	return s, nil
}

// attach returns the shim's view of a CQ of the program, and the id of its channel.
func (s *shim) attach(handle *C.struct_ibv_cq) (id, channelID uint32, _ *paced.CQ, _ error) {
	key := unsafe.Pointer(handle)
	id, known := world.cqIDs[key]
	var c *cq
	if known {
		c = world.cqs.get(C.uint32_t(id))
	} else {
		c = &cq{handle: key}
	}
	var ch verbs.CompChannel
	if handle.channel != nil {
		var err error
		if c.channel, channelID, ch, err = s.attachChannel(unsafe.Pointer(handle.channel)); err != nil {
			return 0, 0, nil, err
		}
		s.needThread()
	}
	for _, a := range c.shims {
		if a.shim == s {
			return id, channelID, a.paced, nil
		}
	}
	inner := s.dev.ibv.AdoptCQ(key)
	p, err := s.s.AdoptCQ(inner, ch)
	if err != nil {
		return 0, 0, nil, errors.Join(err, inner.Close())
	}
	// Pollers read shims without a lock.
	next := &cq{handle: key, channel: c.channel, shims: append(c.shims[:len(c.shims):len(c.shims)], attachment{s, inner, p})}
	if known {
		world.cqs.set(id, next)
	} else {
		id = world.cqs.add(next)
		world.cqIDs[key] = id
	}
	return id, channelID, p, nil
}

func (s *shim) attachChannel(key unsafe.Pointer) (*channel, uint32, verbs.CompChannel, error) {
	id, known := world.chanIDs[key]
	var c *channel
	if known {
		c = world.channels.get(C.uint32_t(id))
	} else {
		c = &channel{handle: key}
	}
	for _, a := range c.shims {
		if a.shim == s {
			return c, id, a.paced, nil
		}
	}
	inner := s.dev.ibv.AdoptChannel(key)
	p := s.s.AdoptChannel(inner)
	next := &channel{handle: key, shims: append(c.shims[:len(c.shims):len(c.shims)], chanAttachment{s, inner, p})}
	if known {
		world.channels.set(id, next)
	} else {
		id = world.channels.add(next)
		world.chanIDs[key] = id
	}
	return next, id, p, nil
}
