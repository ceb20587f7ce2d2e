package storm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// A backlog finds requests that are not reported, and others that give way than must.
func TestBacklog(t *testing.T) {
	host := func(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, b}) }
	request := func(id uint32, source byte) cm.Event {
		e := cm.Event{Type: cm.EventRequest, ID: id, ServiceID: service}
		e.Parameters.Path.Remote = host(source)
		return e
	}
	gone := func(id uint32) cm.Event { return cm.Event{Type: cm.EventUnreachable, ID: id} }
	// The requests of host 1 are numbers 0 to n-1, those of host 2 the rest.
	of := func(n, all int) (b backlog) {
		for i := range all {
			source := host(1)
			if i >= n {
				source = host(2)
			}
			b = append(b, waiter{uint32(i), source})
		}
		return b
	}
	for _, c := range []struct {
		name   string
		has    backlog
		flood  bool
		events []cm.Event
		want   string
	}{
		{"there is room", of(3, 15), true, []cm.Event{request(99, 1)}, ""},
		{"there is room, and one gives way", of(3, 15), true, []cm.Event{gone(0), request(99, 1)}, "[0x0] give way, expected []"},
		{"one is not reported", of(16, 16), true, nil, "rule 23: a request that is new finds 16"},
		{"another message", of(16, 16), false, nil, ""},
		{"one comes too many", of(16, 16), true, []cm.Event{request(99, 1)}, "[] give way, expected [0x0]"},
		{"who has all gives way", of(16, 16), true, []cm.Event{gone(0), request(99, 1)}, ""},
		{"a younger one gives way", of(16, 16), true, []cm.Event{gone(1), request(99, 1)}, "[0x1] give way, expected [0x0]"},
		{"who has more than his share gives way", of(10, 16), true, []cm.Event{gone(0), request(99, 2)}, ""},
		{"who has less gives way", of(6, 16), true, []cm.Event{gone(0), request(99, 1)}, "[0x0] give way, expected [0x6]"},
		{"who has his share makes room himself", of(8, 16), true, []cm.Event{gone(8), request(99, 2)}, ""},
		{"a third has a share", of(8, 16), true, []cm.Event{gone(0), request(99, 3)}, ""},
		{"two give way", of(16, 16), true, []cm.Event{gone(0), gone(1), request(99, 1)}, "[0x0 0x1] give way, expected [0x0]"},
		{"another service", of(16, 16), false, []cm.Event{{Type: cm.EventLookUp, ID: 99, ServiceID: lookUpService}}, ""},
	} {
		b := c.has
		err := b.receive(c.flood, c.events)
		if (c.want == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if n := min(len(c.has)+1, backlogs); c.want == "" && c.flood && (len(b) != n || b[n-1].id != 99) {
			t.Errorf("%s: then wait %v", c.name, b)
		}
	}
}
