package watcher

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher/watchertest"
)

// maps stand in for a program's maps.
type maps struct{ flows, events *ebpf.Map }

func (m maps) Close() error { return errors.Join(m.flows.Close(), m.events.Close()) }

// unwatched returns a Program that no packets come by, with room for that number of
// directions.
func unwatched(t *testing.T, room uint32) (*Program[uint64], maps) {
	t.Helper()
	watchertest.NeedBPF(t)
	events, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	must(t, err)
	flows, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 24, ValueSize: 4, MaxEntries: room})
	must(t, err)
	m := maps{flows, events}
	p, err := New[uint64](m, flows, events)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p, m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// key is struct flow byte by byte.
func key(peer string, qpn, arriving uint32) []byte {
	a := netip.MustParseAddr(peer).As16()
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(a[:], qpn), arriving)
}

// A connection is there under its id in both directions until it ends, unless another
// has its numbers by then.
func TestRegister(t *testing.T) {
	p, m := unwatched(t, 3)
	has := func(k []byte) (id uint32) {
		err := m.flows.Lookup(k, &id)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
		return id
	}
	for _, peer := range []string{"10.0.0.1", "fe80::1"} {
		c := overlay.Connection{Peer: netip.MustParseAddr(peer), PeerQPN: 5, LocalQPN: 6}
		leaving, arriving := key(peer, 5, 0), key(peer, 6, 1)
		must(t, p.Register(7, c))
		if has(leaving) != 7 || has(arriving) != 7 {
			t.Errorf("%s: %d and %d", peer, has(leaving), has(arriving))
		}
		must(t, p.Register(8, c))
		must(t, p.Unregister(7, c))
		if has(leaving) != 8 || has(arriving) != 8 {
			t.Errorf("%s: %d and %d after another's end", peer, has(leaving), has(arriving))
		}
		// There is room for one direction of another connection only.
		other := overlay.Connection{Peer: c.Peer, PeerQPN: 15, LocalQPN: 16}
		if err := p.Register(9, other); err == nil || has(key(peer, 15, 0)) != 0 {
			t.Errorf("%s: %v, half of it is left as %d", peer, err, has(key(peer, 15, 0)))
		}
		must(t, p.Unregister(8, c))
		must(t, p.Unregister(8, c)) // and not again
		if has(leaving) != 0 || has(arriving) != 0 {
			t.Errorf("%s: %d and %d after its end", peer, has(leaving), has(arriving))
		}
	}
}
