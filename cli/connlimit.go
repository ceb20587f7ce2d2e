package cli

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// A connLimit keeps the connections of an http.Server to a number. Of one too many it
// closes that which has waited for a request for the longest, so that idle
// connections, however many, keep nobody out.
type connLimit struct {
	most int

	mu    sync.Mutex
	open  map[net.Conn]*list.Element // in waits, or nil while a request is answered
	waits *list.List                 // of net.Conn, the longest first
}

func newConnLimit(most int) *connLimit {
	return &connLimit{most: most, open: map[net.Conn]*list.Element{}, waits: list.New()}
}

// changed is http.Server.ConnState.
func (l *connLimit) changed(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(c)
	switch state {
	case http.StateNew, http.StateIdle:
		l.open[c] = l.waits.PushBack(c)
	case http.StateActive:
		l.open[c] = nil
	}
	if len(l.open) <= l.most || l.waits.Len() == 0 {
		return
	}
	longest := l.waits.Front().Value.(net.Conn)
	l.forget(longest)
	if t, ok := longest.(*tls.Conn); ok {
		longest = t.NetConn() // whose Close does not wait for the peer
	}
	_ = longest.Close() // its server hears of it
}

func (l *connLimit) forget(c net.Conn) {
	if e := l.open[c]; e != nil {
		l.waits.Remove(e)
	}
	delete(l.open, c)
}
