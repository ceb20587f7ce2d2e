package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// Pings go on, each once and in order, when either end loses a connection.
func TestPingReconnect(t *testing.T) {
	for name, at := range map[string]struct{ client, server []verbs.CallFailure }{
		"the client's":    {client: []verbs.CallFailure{ends(ib.WCRetryExcErr, 5), ends(ib.WCWRFlushErr, 0)}},
		"the server's":    {server: []verbs.CallFailure{ends(ib.WCRetryExcErr, 7), ends(ib.WCWRFlushErr, 2)}},
		"of both at once": {client: []verbs.CallFailure{ends(ib.WCRetryExcErr, 8)}, server: []verbs.CallFailure{{}, ends(ib.WCRetryExcErr, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := model(t, "")
			c := DefaultPingConfig()
			var data strings.Builder
			c.Count, c.Validate, c.Data, c.Reconnect = 20, true, &data, 10*time.Second
			r, err := PingPair(doom(a, at.client...), doom(b, at.server...), c)
			if err != nil {
				t.Fatal(err)
			}
			if r.Pings != 20 || r.Reconnects != 2 || r.Outage == nil || r.Outage.LongestUs <= r.AvgUs || r.Repairs == nil {
				t.Errorf("%+v, %+v, %+v", r, r.Outage, r.Repairs)
			}
			for i, line := range strings.Split(strings.TrimSpace(data.String()), "\n") {
				if !strings.HasPrefix(line, fmt.Sprintf("ping data: rdma-ping-%d: %c", i, 'A'+i)) {
					t.Errorf("line %d: %s", i, line)
				}
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client ends that loses one connection after the other, and one whose error is no loss.
func TestPingReconnectEnds(t *testing.T) {
	for want, failure := range map[string]verbs.CallFailure{
		"no ping over a new connection within 50ms": ends(ib.WCRetryExcErr, 0),
		ib.WCRemAccessErr.Error():                   ends(ib.WCRemAccessErr, 0),
	} {
		a, b := model(t, "")
		failures := make([]verbs.CallFailure, 100000)
		for i := range failures {
			failures[i] = failure
		}
		c := DefaultPingConfig()
		c.Count, c.Reconnect = 20, 50*time.Millisecond
		_, err := PingPair(doom(a, failures...), b, c)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, failure.Status) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

// So they do over connections of rdma_cm. The server waits for a client that comes no more, and ends.
func TestPingReconnectByCM(t *testing.T) {
	a, b := soft(t, "")
	if !rdmacm.Supported(a) {
		t.Fatal("the device carries no messages of rdma_cm")
	}
	l, err := rdmacm.Listen(b, netip.AddrPortFrom(netip.IPv4Unspecified(), PingPort))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	config := DefaultPingConfig()
	config.Count, config.Validate, config.Reconnect = 20, true, time.Minute
	go func() {
		c := config
		c.Reconnect = 2 * time.Second
		served <- PingListen(context.Background(), l, b, c, false, nil)
	}()
	gid, err := b.GID(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	client := &doomed{a, []verbs.CallFailure{ends(ib.WCRetryExcErr, 5)}}
	r, err := PingDial(context.Background(), client, netip.AddrPortFrom(gid, PingPort), config)
	if err := errors.Join(err, <-served, l.Close()); err != nil {
		t.Fatal(err)
	}
	if r.Pings != 20 || r.Reconnects != 1 || r.Outage.LongestUs <= 0 {
		t.Errorf("%+v, %+v", r, r.Outage)
	}
}
