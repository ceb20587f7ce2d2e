package exchange

import (
	"net/netip"
	"testing"
	"time"
)

// Whatever a server says, its client comes to an end, with an error or with values
// in their ranges.
func FuzzClient(f *testing.F) {
	for _, all := range recorded(f) {
		var said []byte
		for _, m := range of(all, false) {
			said = append(said, m...)
		}
		f.Add(said, true)
		f.Add(said, false)
	}
	f.Add([]byte("6.06"), false)
	f.Fuzz(func(t *testing.T, said []byte, messages bool) {
		open := New
		if messages {
			open = NewMessages
		}
		e := open(&script{said: said}, true, time.Hour)
		g, err := e.Greet(DefaultGreeting(2048))
		if err != nil {
			return
		}
		if !g.MTU.Valid() || g.MTU > 2048 || g.CycleBuffer < 4096 || g.CycleBuffer > maxCycleBuffer || g.CacheLine < 64 || g.CacheLine > maxCacheLine || !printable(g.Version) {
			t.Errorf("settled on %+v", g)
		}
		local := Dest{GID: netip.MustParseAddr("fd00::1")}
		d, err := e.Swap(local)
		if err != nil {
			return
		}
		if d.QPN > 0xffffff || d.PSN > 0xffffff || !d.GID.IsValid() {
			t.Errorf("an address of %+v", d)
		}
		_ = CheckFamilies(local, d)
		if _, err := e.SwapReports(Report{}); err == nil {
			_ = e.Finish(d)
			_ = e.Leave()
		}
	})
}
