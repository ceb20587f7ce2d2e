package wiretag

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/sluice-rdma/sluice/internal/tchook"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// source is where events come from: the kernel's hooks, or a test.
type source interface {
	overlay.Program
	// Register makes the program watch the packets of a connection, under an id.
	Register(id uint32, c overlay.Connection, flags uint32) error
	// Take hands over the events that are there. It does not wait, and one
	// goroutine at a time calls it.
	Take(each func(*taggerEvent))
	counts() taggerCounters
}

// What the program is to do for a connection.
const (
	flagTags    = 1 << iota // requests leave with a tag
	flagReports             // returned telemetry is reported
)

// An id of a connection has an index with this number of bits: overlay.Layer.
const (
	indexBits = 16
	maxFlows  = 1 << indexBits
)

// tagger is the program at an interface's hooks.
type tagger struct {
	*watcher.Program[taggerEvent]
	objects taggerObjects
}

// settings are what tests set otherwise.
type settings struct {
	ring   int // bytes; a power of two, and pages
	flows  int // connections
	attach func(index int, p tchook.Programs) (tchook.Attachment, error)
}

// An event takes 64 bytes of the ring, so that it holds 65,536.
var defaults = settings{ring: 4 << 20, flows: maxFlows, attach: tchook.Attach}

// filterName is what `tc filter show` calls the programs.
const filterName = tchook.Prefix + "wiretag"

// newTagger attaches the program to a network interface.
func newTagger(netdev string, c *Config, set settings) (*tagger, error) {
	on, err := netlink.LinkByName(netdev)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", netdev, err)
	}
	if kind := on.Attrs().EncapType; kind != "ether" && kind != "loopback" {
		return nil, fmt.Errorf("interface %s: tags require Ethernet, and its link type is %s", netdev, kind)
	}
	spec, err := loadTagger()
	if err != nil {
		return nil, err
	}
	s := shapeOf(&c.Format)
	for name, v := range map[string]any{
		taggerVarTagType: s.etherType, taggerVarTagQuads: s.quads, taggerVarTagValue: s.value,
		taggerVarSignalMask: s.signal, taggerVarSignalForward: s.forward, taggerVarSignalEcho: s.returned,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("eBPF program: %s: %w", name, err)
		}
	}
	spec.Maps[taggerMapEvents].MaxEntries = uint32(set.ring)
	spec.Maps[taggerMapFlows].MaxEntries = uint32(2 * set.flows)
	spec.Maps[taggerMapConns].MaxEntries = uint32(set.flows)
	t := &tagger{}
	if err := watcher.Load(spec, &t.objects); err != nil {
		return nil, err
	}
	if t.Program, err = watcher.New[taggerEvent](&t.objects, t.objects.Flows, t.objects.Events); err != nil {
		return nil, err
	}
	// Tags are the outermost: off first, and on last.
	at, err := set.attach(on.Attrs().Index, tchook.Programs{Name: filterName, Leaving: t.objects.Leaving, Arriving: t.objects.Arriving, LeavingLast: true})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.At = at
	return t, nil
}

// Register implements source.
func (t *tagger) Register(id uint32, c overlay.Connection, flags uint32) error {
	if err := t.objects.Conns.Put(id&(maxFlows-1), taggerConn{Id: id, Flags: flags}); err != nil {
		return err
	}
	return t.Program.Register(id, c)
}

func (t *tagger) counts() (c taggerCounters) {
	_ = t.objects.Counts.Get(&c) // of a map that exists
	return c
}

// Available reports why Wrap could not read a network interface's telemetry; nil if it
// could. It has the kernel check the program, and attaches nothing.
func Available(netdev string) error {
	cfg := DefaultConfig(telemetry.Wide)
	t, err := newTagger(netdev, &cfg, settings{
		ring: os.Getpagesize(), flows: 1,
		attach: func(int, tchook.Programs) (tchook.Attachment, error) { return tchook.Detached(), nil },
	})
	if err != nil {
		return watcher.Explain(netdev, err)
	}
	return t.Close()
}
