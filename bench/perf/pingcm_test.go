package perf_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// TestPingOverCM plays rping over rdma_cm's protocol on two devices of the
// loopback.
func TestPingOverCM(t *testing.T) {
	server, err := verbs.Open("soft:127.0.78.2")
	if err != nil {
		t.Fatal(err)
	}
	client, err := verbs.Open("soft:127.0.78.3")
	if err != nil {
		t.Fatal(errors.Join(err, server.Close()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l, err := rdmacm.Listen(server, netip.MustParseAddrPort("127.0.78.2:7174"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := perf.DefaultPingConfig()
	served := make(chan error, 1)
	plain := cfg
	go func() { served <- perf.PingAccept(ctx, l, server, plain) }()
	var text bytes.Buffer
	cfg.Count, cfg.Size, cfg.Validate, cfg.Data = 3, 4096, true, &text
	result, err := perf.PingDial(ctx, client, netip.MustParseAddrPort("127.0.78.2:7174"), cfg)
	if err := errors.Join(err, <-served, l.Close()); err != nil {
		t.Fatal(err)
	}
	if result.Pings != 3 || strings.Count(text.String(), "ping data: rdma-ping-") != 3 {
		t.Errorf("%d pings, %d bytes of text", result.Pings, text.Len())
	}
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}
