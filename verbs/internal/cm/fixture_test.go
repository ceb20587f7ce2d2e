package cm_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// captured reads the datagrams of testdata by name.
func captured(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/rping-linux-6.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	mads := map[string][]byte{}
	var name string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "#"):
		case len(f) == 3:
			name = f[0]
		default:
			b, err := hex.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			mads[name] = append(mads[name], b...)
		}
	}
	if len(mads) != 5 {
		t.Fatalf("%d datagrams in the fixture", len(mads))
	}
	return mads
}

var (
	clientAddr = netip.MustParseAddr("10.77.0.3")
	serverAddr = netip.MustParseAddr("10.77.0.2")
	toServer   = cm.Path{Local: clientAddr, Remote: serverAddr}
	toClient   = cm.Path{Local: serverAddr, Remote: clientAddr}
)

const (
	clientGUID = 0x505400fffe000003
	serverGUID = 0x505400fffe000002
	service    = 0x0000000001061c06 // TCP port 7174, rping's
)

// words is a source of chosen 32-bit numbers.
func words(w ...uint32) *bytes.Reader {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return bytes.NewReader(b)
}

// host is a Manager with what it has put out.
type host struct {
	*cm.Manager
	t      testing.TB
	sent   []cm.Outgoing
	events []cm.Event
	all    uint64 // datagrams that it has put out
}

func newHost(t testing.TB, guid uint64, change func(*cm.Config)) *host {
	t.Helper()
	cfg := cm.DefaultConfig()
	cfg.CAGUID = guid
	if change != nil {
		change(&cfg)
	}
	m, err := cm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &host{Manager: m, t: t}
}

// drain moves what the Manager has put out to sent and events.
func (h *host) drain() {
	var o cm.Outgoing
	for h.NextMAD(&o) {
		h.sent = append(h.sent, o)
		h.all++
	}
	counted := uint64(0)
	for _, n := range h.Counters.Sent {
		counted += n
	}
	if counted != h.all {
		h.t.Errorf("%d datagrams are counted as sent, of %d", counted, h.all)
	}
	var e cm.Event
	for h.NextEvent(&e) {
		h.events = append(h.events, e)
	}
}

// oneMAD returns the only datagram sent since the last call of take or oneMAD.
func (h *host) oneMAD() roce.MAD {
	h.t.Helper()
	h.drain()
	if len(h.sent) != 1 {
		h.t.Fatalf("sent %d datagrams, want 1", len(h.sent))
	}
	m := h.sent[0].MAD
	h.sent = nil
	return m[:]
}

func (h *host) noMAD() {
	h.t.Helper()
	h.drain()
	if len(h.sent) != 0 {
		h.t.Fatalf("sent %v, want nothing", roce.MAD(h.sent[0].MAD[:]).Attribute())
	}
}

func (h *host) event(want cm.EventType) cm.Event {
	h.t.Helper()
	h.drain()
	if len(h.events) == 0 || h.events[0].Type != want {
		h.t.Fatalf("events %+v, want %v first", h.events, want)
	}
	e := h.events[0]
	h.events = h.events[1:]
	return e
}

func (h *host) noEvent() {
	h.t.Helper()
	h.drain()
	if len(h.events) != 0 {
		h.t.Fatalf("events %+v, want none", h.events)
	}
}

// sameMAD compares two datagrams; tid says whether the transaction IDs count.
func sameMAD(t *testing.T, what string, got, want []byte, tid bool) {
	t.Helper()
	got, want = bytes.Clone(got), bytes.Clone(want)
	if !tid {
		clear(got[8:16])
		clear(want[8:16])
	}
	if !bytes.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: byte %d is %#02x, the capture has %#02x", what, i, got[i], want[i])
			}
		}
	}
}

// clientPrivate is the head of the captured REQ's private data.
func clientPrivate() []byte {
	b := make([]byte, roce.IPCMBytes)
	h := roce.IPCM{SrcPort: 0xe04a, Src: clientAddr, Dst: serverAddr}
	h.Put(b)
	return b
}

func clientRequest() cm.Request {
	return cm.Request{
		Path: toServer, ServiceID: service,
		Endpoint: cm.Endpoint{
			QPN: 0x16, StartingPSN: 0x398466, ResponderResources: 1, InitiatorDepth: 1, RNRRetryCount: 7, Private: clientPrivate(),
		},
		PathMTU: 1024, RetryCount: 7, FlowLabel: 0xb44fc, HopLimit: 64,
	}
}

func serverEndpoint() cm.Endpoint {
	return cm.Endpoint{QPN: 0x16, StartingPSN: 0x1ebc1b, ResponderResources: 1, InitiatorDepth: 1, RNRRetryCount: 7}
}

// TestActiveAsCaptured plays "rping -c" against the captured server.
func TestActiveAsCaptured(t *testing.T) {
	mads := captured(t)
	h := newHost(t, clientGUID, func(c *cm.Config) { c.Rand = words(2, 0x55b561ac) })
	id, err := h.Connect(0, clientRequest())
	if err != nil {
		t.Fatal(err)
	}
	// Linux puts the communication ID into the transaction ID in another order.
	sameMAD(t, "REQ", h.oneMAD(), mads["REQ"], false)

	h.Receive(1, toServer, mads["REP"])
	p := h.event(cm.EventReply).Parameters
	// In the capture the client's first packet has the PSN 0x1ebc1b.
	want := cm.Parameters{
		Path: toServer, QPN: 0x16, RemoteQPN: 0x16, SQPSN: 0x1ebc1b, RQPSN: 0x398466, PathMTU: 1024,
		MaxRdAtomic: 1, MaxDestRdAtomic: 1, Timeout: 19, RetryCount: 7, RNRRetryCount: 7, FlowLabel: 0xb44fc, HopLimit: 64,
	}
	if p != want {
		t.Errorf("parameters\n%+v, want\n%+v", p, want)
	}
	if err := h.Ready(2, id, nil); err != nil {
		t.Fatal(err)
	}
	sameMAD(t, "RTU", h.oneMAD(), mads["RTU"], false)
	if h.State(id) != cm.Established || h.Deadline() != units.Never {
		t.Errorf("state %v, deadline %v", h.State(id), h.Deadline())
	}
	if err := h.Disconnect(3, id, nil); err != nil {
		t.Fatal(err)
	}
	sameMAD(t, "DREQ", h.oneMAD(), mads["DREQ"], false)
	h.Receive(4, toServer, mads["DREP"])
	h.event(cm.EventDisconnected)
	h.Expire(h.Deadline())
	h.event(cm.EventTimeWaitExit)
	if h.Connections() != 0 || h.Deadline() != units.Never {
		t.Errorf("%d connections left, deadline %v", h.Connections(), h.Deadline())
	}
}

// TestPassiveAsCaptured plays "rping -s" against the captured client.
func TestPassiveAsCaptured(t *testing.T) {
	mads := captured(t)
	h := newHost(t, serverGUID, func(c *cm.Config) { c.Rand = words(7, 0xf465766b) })
	if err := h.Listen(service, 1); err != nil {
		t.Fatal(err)
	}
	h.Receive(0, toClient, mads["REQ"])
	req := h.event(cm.EventRequest)
	var ip roce.IPCM
	if _, err := ip.Decode(req.Private); err != nil || ip.SrcPort != 0xe04a || ip.Src != clientAddr || ip.Dst != serverAddr {
		t.Errorf("addresses %+v, %v", ip, err)
	}
	p, err := h.Accept(1, req.ID, serverEndpoint())
	if err != nil {
		t.Fatal(err)
	}
	want := cm.Parameters{
		Path: toClient, QPN: 0x16, RemoteQPN: 0x16, SQPSN: 0x398466, RQPSN: 0x1ebc1b, PathMTU: 1024,
		MaxRdAtomic: 1, MaxDestRdAtomic: 1, Timeout: 19, RetryCount: 7, RNRRetryCount: 7, FlowLabel: 0xb44fc, HopLimit: 64,
	}
	if p != want {
		t.Errorf("parameters\n%+v, want\n%+v", p, want)
	}
	sameMAD(t, "REP", h.oneMAD(), mads["REP"], true)
	h.Receive(2, toClient, mads["RTU"])
	if e := h.event(cm.EventEstablished); e.Parameters != want {
		t.Errorf("parameters of the event %+v", e.Parameters)
	}
	h.Receive(3, toClient, mads["DREQ"])
	sameMAD(t, "DREP", h.oneMAD(), mads["DREP"], true)
	h.event(cm.EventDisconnected)
	// The DREP may have been lost: it comes again, now and after TimeWait.
	h.Receive(4, toClient, mads["DREQ"])
	sameMAD(t, "second DREP", h.oneMAD(), mads["DREP"], true)
	h.Expire(h.Deadline())
	h.event(cm.EventTimeWaitExit)
	h.Receive(5, toClient, mads["DREQ"])
	sameMAD(t, "third DREP", h.oneMAD(), mads["DREP"], true)
	h.noEvent()
}
