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
	"github.com/sluice-rdma/sluice/roce"
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
	go func() { served <- perf.PingListen(ctx, l, server, plain, false, nil) }()
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

// TestPingBesideRequestsNobodyMeans: requests for connections whose sender never goes on
// keep no client waiting.
func TestPingBesideRequestsNobodyMeans(t *testing.T) {
	open := func(name string) verbs.Device {
		t.Helper()
		dev, err := verbs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		return dev
	}
	server, client, stranger := open("soft:127.0.78.12"), open("soft:127.0.78.13"), open("soft:127.0.78.14")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	at := netip.MustParseAddrPort("127.0.78.12:7175")
	l, err := rdmacm.Listen(server, at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(20) {
		private := make([]byte, roce.IPCMBytes)
		ip := roce.IPCM{SrcPort: uint16(1000 + i), Src: netip.MustParseAddr("127.0.78.14"), Dst: at.Addr()}
		ip.Put(private)
		req := roce.REQ{
			LocalCommID: 77 + i, ServiceID: roce.PortSpaceTCP.ServiceID(at.Port()), LocalCAGUID: 1, LocalQPN: 99 + i,
			RemoteCMTimeout: 31, LocalCMTimeout: 31, MaxCMRetries: 15, PKey: 0xffff, PathMTU: roce.MTUCode(1024), Private: private,
			Primary: roce.CMPath{LocalGID: roce.GIDOf(ip.Src), RemoteGID: roce.GIDOf(at.Addr()), HopLimit: 64, LocalAckTimeout: 31},
		}
		mad := make([]byte, roce.MADBytes)
		if _, err := req.Put(mad, uint64(i)); err != nil {
			t.Fatal(err)
		}
		if err := stranger.(verbs.MADDevice).SendMAD(verbs.AddressVector{GID: at.Addr()}, roce.GSIQP, mad); err != nil {
			t.Fatal(err)
		}
	}
	cfg := perf.DefaultPingConfig()
	listening, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	plain := cfg
	go func() { served <- perf.PingListen(listening, l, server, plain, true, nil) }()
	cfg.Count = 3
	if result, err := perf.PingDial(ctx, client, at, cfg); err != nil || result.Pings != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	stop()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
